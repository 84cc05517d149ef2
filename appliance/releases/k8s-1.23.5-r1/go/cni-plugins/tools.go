//go:build tools

// Package tools names the commands that are built from this module, so that go.sum covers them.
package tools

import (
	_ "github.com/containernetworking/plugins/plugins/ipam/host-local"
	_ "github.com/containernetworking/plugins/plugins/main/bridge"
	_ "github.com/containernetworking/plugins/plugins/main/loopback"
	_ "github.com/containernetworking/plugins/plugins/meta/flannel"
	_ "github.com/containernetworking/plugins/plugins/meta/portmap"
)
