//go:build tools

// Package tools names the commands that are built from this module, so that go.sum covers them.
package tools

import (
	_ "github.com/google/go-containerregistry/cmd/crane"
)
