//go:build tools

// Package tools names the commands that are built from this module, so that go.sum covers them.
package tools

import (
	_ "filippo.io/age/cmd/age"
)
