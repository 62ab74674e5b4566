// Package coreclient is a client of the Kubernetes API for tests, that knows the types of core/v1. The provider itself
// has another one.
//
// Start reading at New.
package coreclient

import (
	"fmt"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Client makes requests to one API server.
type Client struct {
	rest.Interface
	// Params writes the options of a request into its URL.
	Params runtime.ParameterCodec
}

// New is a client with the address, credentials and limits of settings.
func New(settings *rest.Config) (*Client, error) {
	known := runtime.NewScheme()
	if err := core.AddToScheme(known); err != nil {
		return nil, err
	}
	meta.AddToGroupVersion(known, schema.GroupVersion{Version: "v1"})

	settings = rest.CopyConfig(settings)
	settings.APIPath = "/api"
	settings.GroupVersion = &core.SchemeGroupVersion
	settings.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	client, err := rest.RESTClientFor(settings)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	return &Client{Interface: client, Params: runtime.NewParameterCodec(known)}, nil
}
