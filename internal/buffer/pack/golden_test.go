package pack_test

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/internal/buffer/pack"
	"github.com/millrace/millrace/internal/rollout"
)

// newestFormat and newestJournal are those that can still be written. Of journals the second has records of timings.
const (
	newestFormat  = "3"
	newestJournal = "2"
)

var update = flag.Bool("update", false, "write the golden record again; only together with a new format number")

// TestOldRecordsAreRead reads groups that were written when each format was new: a run that is going on must
// survive the deployment of a new version.
func TestOldRecordsAreRead(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"1", "2", "3"} {
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
		wantGolden(t, format, g, text)
	}
}

// wantGolden compares what was read of a format with what is written down.
func wantGolden(t *testing.T, format string, read any, text string) {
	t.Helper()
	got, err := json.MarshalIndent(read, "", " ")
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

// TestOldJournalsAreRead reads journals that were written when their formats were new.
func TestOldJournalsAreRead(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"1", "2"} {
		file, text := filepath.Join("testdata", "journal-format"+format+".records.json"),
			filepath.Join("testdata", "journal-format"+format+".json")
		if *update && format == newestJournal {
			writeGoldenJournal(t, file, text)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var records [][]byte
		if err := json.Unmarshal(b, &records); err != nil {
			t.Fatal(err)
		}
		texts := make([]string, len(records))
		for i, r := range records {
			texts[i] = string(r)
		}
		ep := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "demo", Seq: 3}, Sample: 1}
		journal, err := pack.ReadJournal(ep, texts)
		if err != nil {
			t.Fatal(err)
		}
		wantGolden(t, format, []any{journal.Checkpoint.Episode, journal.Answers}, text)
	}
}

func writeGoldenJournal(t *testing.T, file, text string) {
	t.Helper()
	j := newJournalled(2)
	j.ref.Sample = 1
	j.now.Episode.Ref = j.ref
	for range 5 {
		j.phase(t)
	}
	records := make([][]byte, len(j.records))
	for i, r := range j.records {
		records[i] = []byte(r)
	}
	read, err := pack.ReadJournal(j.ref, j.records)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]any{file: records, text: []any{read.Checkpoint.Episode, read.Answers}} {
		b, err := json.MarshalIndent(data, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
