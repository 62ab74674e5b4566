package server

import (
	"net/http"
	"testing"
)

// TestAddressesOfEngines: the API refuses to add an engine where the service's configuration says that none may be.
func TestAddressesOfEngines(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, "engine_urls: {deny: [127.0.0.9]}\n", nil)
	s.want(http.StatusOK, "PUT", "/v1/engines/fine", "", `{"url":"http://127.0.0.1:20000"}`)
	for _, url := range []string{
		"http://169.254.169.254", "http://[::ffff:169.254.169.254]", "http://metadata.google.internal",
		"http://127.0.0.9:8000", "http://0.0.0.0:8000",
	} {
		s.want(http.StatusUnprocessableEntity, "PUT", "/v1/engines/x", "", `{"url":"`+url+`"}`)
	}
	only := serveAPI(t, "engine_urls: {allow: [10.0.0.0/8]}\n", nil)
	only.want(http.StatusOK, "PUT", "/v1/engines/fine", "", `{"url":"http://10.0.0.7:8000"}`)
	only.want(http.StatusUnprocessableEntity, "PUT", "/v1/engines/x", "", `{"url":"http://127.0.0.1:20000"}`)
}
