// Package kubernetes gets engines as pods: one pod for each engine, made from the operator's pod template. It keeps
// nothing in its own memory: which engines there are is what the API server says, found by a label that names the
// deployment. A pod that does not have this deployment's label is never changed.
//
// It decides nothing. How many engines there are, and when one is drained, is decided above package provider.
//
// The Kubernetes API is reached through client-go's REST client with the types of core/v1 alone (ADR 35). Start reading
// at Provider.
package kubernetes
