package fakeapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var nodeResource = schema.GroupResource{Resource: "nodes"}

func (s *Server) listNodes(*http.Request, []byte) (any, *apierrors.StatusError) {
	list := core.NodeList{TypeMeta: meta.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		list.Items = append(list.Items, *s.nodes[name])
	}
	return list, nil
}

func (s *Server) createNode(_ *http.Request, body []byte) (any, *apierrors.StatusError) {
	var node core.Node
	if err := json.Unmarshal(body, &node); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if s.nodes[node.Name] != nil {
		return nil, apierrors.NewAlreadyExists(nodeResource, node.Name)
	}
	s.stamp(&node.ObjectMeta)
	s.nodes[node.Name] = &node
	return node, nil
}

func (s *Server) getNode(r *http.Request, _ []byte) (any, *apierrors.StatusError) {
	if node := s.nodes[r.PathValue("name")]; node != nil {
		return node, nil
	}
	return nil, apierrors.NewNotFound(nodeResource, r.PathValue("name"))
}

func (s *Server) patchNode(r *http.Request, body []byte) (any, *apierrors.StatusError) {
	node := s.nodes[r.PathValue("name")]
	if node == nil {
		return nil, apierrors.NewNotFound(nodeResource, r.PathValue("name"))
	}
	changed, err := merged(node, body, node.UID, nodeResource)
	if err != nil {
		return nil, err
	}
	s.nodes[node.Name] = changed
	return changed, nil
}

func (s *Server) deleteNode(r *http.Request, _ []byte) (any, *apierrors.StatusError) {
	delete(s.nodes, r.PathValue("name"))
	return meta.Status{Status: meta.StatusSuccess}, nil
}
