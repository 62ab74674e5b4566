package archive_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/store/archive"
)

func fill(text string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
}

func write(t *testing.T, path string) {
	t.Helper()
	w, err := archive.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Add("steps.ndjson", fill(strings.Repeat("{\"step\":0}\n", 5000))); err != nil {
		t.Fatal(err)
	}
	if err := w.Add("batches/0.json", fill("{}\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the archive has its name before it is whole")
	}
	if _, err := w.Finish(archive.Manifest{Run: "demo", ID: "demo@2", Status: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
}

// only reports whether a folder holds nothing but these.
func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	if strings.Join(found, " ") != strings.Join(names, " ") {
		t.Errorf("the folder holds %v, want %v", found, names)
	}
}

func TestAnArchiveIsCheckedAndNeverOverwritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "demo.tar.gz")
	write(t, path)
	only(t, dir, "demo.tar.gz")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := archive.Check(bytes.NewReader(whole))
	if err != nil || m.ID != "demo@2" || len(m.Members) != 2 || m.Members[1].Name != "batches/0.json" ||
		m.Members[0].Bytes != 55000 {
		t.Errorf("%+v: %v", m, err)
	}
	if _, err := archive.Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an archive was overwritten: %v", err)
	}
	for size := range whole { // cut short anywhere it is none
		if _, err := archive.Check(bytes.NewReader(whole[:size])); err == nil {
			t.Fatalf("the first %d bytes of %d pass", size, len(whole))
		}
	}
	text := unzipped(t, whole)
	for at := range whole {
		broken := bytes.Clone(whole)
		broken[at] ^= 0x10
		// A few bits of gzip mean nothing: the system that wrote it, and what fills up its last byte.
		if _, err := archive.Check(bytes.NewReader(broken)); err == nil && !bytes.Equal(unzipped(t, broken), text) {
			t.Fatalf("a wrong byte at %d passes", at)
		}
	}
}

func unzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestWhatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := archive.Create(filepath.Join(dir, "demo.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	unavailable := errors.New("the server is unavailable")
	if err := w.Add("steps.ndjson", func(to io.Writer) error {
		_, _ = io.WriteString(to, "half")
		return unavailable
	}); !errors.Is(err, unavailable) {
		t.Errorf("%v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	only(t, dir)
}
