package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/millrace/millrace/internal/provider/kubernetes/controlplane"
	"github.com/millrace/millrace/internal/provider/kubernetes/fakekubelet"
	"github.com/millrace/millrace/internal/provider/kubernetes/podsandbox"
	"github.com/millrace/millrace/internal/provider/kubernetes/serviceproxy"
)

const bridge = "millrace0"

// addNetwork makes the network of pods, until remove is called.
func addNetwork() (remove func(), err error) { return podsandbox.NewBridge(bridge, gateway, services) }

// runSandboxes is the runtime of pods that have everything of their own; follow has Services lead to them.
func runSandboxes(plane *controlplane.Plane, o options) (runtime fakekubelet.Runtime, follow func(context.Context),
	err error) {
	images := map[string]podsandbox.Image{}
	for _, text := range o.images {
		name, place, _ := strings.Cut(text, "=")
		dockerfile, root, ok := strings.Cut(place, ":")
		if !ok {
			return nil, nil, fmt.Errorf("-image %s: want NAME=DOCKERFILE:FOLDER", text)
		}
		if images[name], err = podsandbox.ReadImage(dockerfile, root); err != nil {
			return nil, nil, err
		}
	}
	server, err := url.Parse(plane.Admin().Host)
	if err != nil {
		return nil, nil, err
	}
	sandboxes, err := podsandbox.New(podsandbox.Config{
		API: plane.Admin(), Bridge: bridge, Gateway: gateway, Images: images, Dir: o.dir,
		APIServer: net.JoinHostPort(server.Hostname(), server.Port()),
	})
	if err != nil {
		return nil, nil, err
	}
	proxy, err := serviceproxy.New(plane.Admin(), sandboxes.Hosts)
	if err != nil {
		return nil, nil, err
	}
	return sandboxes, proxy.Run, nil
}
