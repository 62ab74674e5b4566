package pack_test

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/internal/buffer/pack"
)

// newestFormat is the one that can still be written.
const newestFormat = "2"

var update = flag.Bool("update", false, "write the golden record again; only together with a new format number")

// TestOldRecordsAreRead reads groups that were written when each format was new: a run that is going on must
// survive the deployment of a new version.
func TestOldRecordsAreRead(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"1", "2"} {
		packed, text := filepath.Join("testdata", "group-format"+format+".bin"),
			filepath.Join("testdata", "group-format"+format+".json")
		if *update && format == newestFormat {
			writeGolden(t, packed, text)
		}
		b, err := os.ReadFile(packed)
		if err != nil {
			t.Fatal(err)
		}
		g, err := pack.ReadGroup(b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.MarshalIndent(g, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(text)
		if err != nil {
			t.Fatal(err)
		}
		if string(got)+"\n" != string(want) {
			t.Errorf("format %s: got %s\nwant %s", format, got, want)
		}
	}
}

func writeGolden(t *testing.T, packed, text string) {
	t.Helper()
	g := randomGroup(rand.New(rand.NewPCG(12, 0)))
	b, err := pack.Group(g)
	if err != nil {
		t.Fatal(err)
	}
	j, err := json.MarshalIndent(g, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{packed: b, text: append(j, '\n')} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
