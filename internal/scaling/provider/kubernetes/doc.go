// Package kubernetes gets engines as pods: one pod for each engine, made from the operator's pod template. It has no
// memory of its own: the API server lists the engines, by a label that names the deployment. A pod without this
// deployment's label is never changed.
//
// It decides nothing. How many engines there are, and when one is drained, is decided above package provider.
//
// The Kubernetes API is reached by plain HTTP, with the few fields of pods and nodes that are read (ADR 35). client-go
// and its types are for tests. Start reading at Provider.
package kubernetes
