package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

var at = time.Date(2026, 11, 23, 9, 0, 0, 0, time.FixedZone("elsewhere", 3600))

// TestTarball: the same files make the same bytes in every time zone, and nothing of the machine is in them.
func TestTarball(t *testing.T) {
	t.Parallel()
	files := []file{{"millrace", 0o755, []byte("program")}, {"config/examples/service.yaml", 0o644, nil}}
	first, err := tarball("millrace_v1", files, at)
	if err != nil {
		t.Fatal(err)
	}
	second, err := tarball("millrace_v1", files, at.UTC())
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the second differs (%v)", err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Uname != "" || !h.ModTime.Equal(at) {
			t.Errorf("%s: of %d %q, at %v", h.Name, h.Uid, h.Uname, h.ModTime)
		}
		names = append(names, h.Name)
	}
	if want := []string{"millrace_v1/millrace", "millrace_v1/config/examples/service.yaml"}; !slices.Equal(names, want) {
		t.Errorf("holds %v, want %v", names, want)
	}
}

// TestSBOM: every module of the program is in it, as it was built, replaced ones as what replaced them.
func TestSBOM(t *testing.T) {
	t.Parallel()
	built := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "github.com/millrace/millrace"},
		Deps: []*debug.Module{
			{Path: "example.org/a", Version: "v1.0.0", Sum: "h1:abc="},
			{Path: "example.org/b", Version: "v2.0.0", Replace: &debug.Module{Path: "example.org/fork", Version: "v2.0.1+x"}},
		}}
	data, err := sbom(built, [32]byte{1}, release{version: "v1.2.3", commit: "abc", date: at})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		BOMFormat  string
		Metadata   struct{ Timestamp string }
		Components []struct{ PURL string }
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	var purls []string
	for _, c := range got.Components {
		purls = append(purls, c.PURL)
	}
	want := []string{"pkg:golang/std@v1.26.8", "pkg:golang/example.org/a@v1.0.0",
		"pkg:golang/example.org/fork@v2.0.1%2Bx"}
	if got.BOMFormat != "CycloneDX" || got.Metadata.Timestamp != "2026-11-23T08:00:00Z" || !slices.Equal(purls, want) {
		t.Errorf("%s of %s with %v, want %v", got.BOMFormat, got.Metadata.Timestamp, purls, want)
	}
}

func TestWhatLiesAlongside(t *testing.T) {
	t.Parallel()
	r := release{source: "../../.."}
	for _, pattern := range alongside {
		if _, err := r.read(pattern); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat("../../../README.md"); err != nil {
		t.Error(err)
	}
}
