package fakeapi

import (
	"net/http"
	"strings"
)

// describe says what a request is in the words of RBAC.
func describe(r *http.Request) Request {
	rest := strings.TrimPrefix(r.URL.Path, "/api/v1/")
	if after, ok := strings.CutPrefix(rest, "namespaces/"); ok {
		_, rest, _ = strings.Cut(after, "/")
	}
	parts := strings.Split(rest, "/")
	asked := Request{
		Resource: parts[0], Agent: r.UserAgent(), Continue: r.URL.Query().Get("continue"),
		Verb: map[string]string{"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}[r.Method],
	}
	if r.Method == http.MethodGet {
		asked.Verb = "list"
		if len(parts) > 1 {
			asked.Verb = "get"
		}
	}
	if len(parts) > 2 {
		asked.Resource += "/" + parts[2]
	}
	return asked
}
