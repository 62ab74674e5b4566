package diplomacy

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fullData names the directory that holds the whole data set; without it the tests run the part in testdata.
const fullData = "MILLRACE_DATA"

// openData opens diplomacy/full of the whole data set if there is one, else the part in testdata.
func openData(tb testing.TB, full, part string) io.Reader {
	tb.Helper()
	path := filepath.Join("testdata", part)
	if dir := os.Getenv(fullData); dir != "" {
		path = filepath.Join(dir, "diplomacy", full)
	} else {
		tb.Logf("runs on %s; set %s to the directory of the whole data set for diplomacy/%s", path, fullData, full)
	}
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	if !strings.HasSuffix(path, ".gz") {
		return f
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	return z
}

// readLines decodes one JSON value a line.
func readLines[T any](tb testing.TB, r io.Reader) []T {
	tb.Helper()
	var all []T
	d := json.NewDecoder(bufio.NewReader(r))
	for {
		var v T
		err := d.Decode(&v)
		if err == io.EOF {
			return all
		}
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, v)
	}
}

// mustState is a position that the test knows to be sound.
func mustState(tb testing.TB, p Position) *State {
	tb.Helper()
	s, err := NewState(Standard(), p)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
