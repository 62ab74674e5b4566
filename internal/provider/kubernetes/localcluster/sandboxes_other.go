//go:build !linux

package main

import (
	"context"
	"errors"

	"github.com/millrace/millrace/internal/provider/kubernetes/controlplane"
	"github.com/millrace/millrace/internal/provider/kubernetes/fakekubelet"
)

var errLinux = errors.New("-image: networks of pods need Linux")

func addNetwork() (remove func(), err error) { return nil, errLinux }

func runSandboxes(*controlplane.Plane, options) (fakekubelet.Runtime, func(context.Context), error) {
	return nil, nil, errLinux
}
