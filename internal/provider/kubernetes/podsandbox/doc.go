// Package podsandbox runs pods on this machine as a node runs them, without a container runtime: each pod has a network
// of its own, on a bridge; each container has the files of its image, volumes of ConfigMaps, Secrets and service
// account tokens that are renewed, the user and the capabilities that its security context names, probes, hooks and
// restarts. It is a Runtime of package fakekubelet, and it is for trying what a chart makes; it needs Linux, root,
// overlayfs, iproute2 and util-linux.
//
// Not done: limits of CPU and memory, more than one container that is no init container, and volumes that need a
// driver.
//
// Start reading at Sandboxes.
package podsandbox
