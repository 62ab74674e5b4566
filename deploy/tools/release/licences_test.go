package main

import (
	"bytes"
	"runtime/debug"
	"testing"
)

// TestLicences: the terms of Go and of each module are there, word for word, and a module without any is named.
func TestLicences(t *testing.T) {
	t.Parallel()
	r := release{source: "../../.."}
	text, err := r.licences(&debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
		{Path: "github.com/spf13/cobra"}, {Path: "k8s.io/client-go"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"==== Go go1.26.8: LICENSE", "Redistributions in binary form must reproduce",
		"==== github.com/spf13/cobra v", "==== k8s.io/client-go v", "Apache License"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%q is missing", want)
		}
	}
	var none bytes.Buffer
	err = appendTerms(&none, "example.org/none", t.TempDir())
	if err != nil || !bytes.Contains(none.Bytes(), []byte("none")) {
		t.Errorf("a module without a licence is not named: %v, %s", err, &none)
	}
	if err := appendTerms(&none, "example.org/absent", "absent"); err == nil {
		t.Error("a module that is not there has terms")
	}
}
