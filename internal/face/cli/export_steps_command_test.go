package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/millrace/millrace/internal/face/cli/batchrows"
)

// batchDocument is a step's batch, with what is easily lost on the way: a character that a terminal obeys, logprobs of
// float32, two versions.
func batchDocument(step string) string {
	return `{"run":"demo","step":` + step + `,"trainer_version":4,"groups":[{"ref":{"run":"demo","seq":3},"constraints":[` +
		`{"kind":"choice","choices":["a","b"]}],"trajectories":[{"trajectory_id":"demo/3/0/X","sample":0,"agent":"X",` +
		`"reward":1,"advantage":0.5,"turns":[{"phase":"a","prompt_token_ids":[1],"token_ids":[2],"logprobs":[-0.1],"loss_mask":[1],` +
		`"policy_version":4,"finish_reason":"stop","reward":0,"text":"a\u009b","constraint_index":0},` +
		`{"phase":"b","prompt_token_ids":[1,2,3],"token_ids":[4],"logprobs":[-12.345679],"loss_mask":[1],` +
		`"policy_version":3,"finish_reason":"stop","reward":0,"text":"b"}]}]}]}`
}

var batches = map[string]reply{
	"GET /v1/runs/demo/steps/0/batch": {200, batchDocument("0")},
	"GET /v1/runs/demo/steps/1/batch": {200, batchDocument("1")},
	"GET /v1/runs/demo/steps/2/batch": {409, `{"type":"urn:millrace:problem:not-retained","title":"Batch no longer kept",` +
		`"status":409,"detail":"the batch of step 2 of run demo is not kept"}`},
	"GET /v1/runs/demo/steps/3/batch": {200, `{"run":"demo","st`},
	"GET /v1/runs/demo/steps/4/batch": {404, `{"type":"urn:millrace:problem:no-such-step","title":"No such step",` +
		`"status":404,"detail":"step 4 of run demo was not claimed yet"}`},
}

// TestExport: Parquet has the very rows that the lines have, a row group a step, and no step is claimed.
func TestExport(t *testing.T) {
	t.Parallel()
	got, s := command(t, batches, "", nil, strings.Fields("run export demo --steps 0..1")...)
	if got.err != nil || got.stderr != "2 rows of 2 steps of run demo\n" || strings.Count(got.stdout, "\n") != 2 ||
		!strings.Contains(got.stdout, `"text":"a\u009b"`) ||
		!strings.Contains(got.stdout, `"logprobs":[0,-0.1,0,-12.345679]`) {
		t.Fatalf("%v %q\n%s", got.err, got.stderr, got.stdout)
	}
	for _, call := range s.asked {
		if !strings.HasPrefix(call, "GET ") {
			t.Errorf("asked %s", call)
		}
	}
	to := filepath.Join(t.TempDir(), "demo.parquet")
	args := strings.Fields("run export demo --steps 0..1 -o parquet")
	binary, _ := command(t, batches, "", nil, args...)
	if got, _ = command(t, batches, "", nil, append(args, "--to", to)...); got.err != nil || got.stdout != "" {
		t.Fatal(got)
	}
	written, err := os.ReadFile(to)
	if err != nil || string(written) != binary.stdout {
		t.Fatalf("%v: %d bytes in the file, %d on stdout", err, len(written), len(binary.stdout))
	}
	file, err := parquet.OpenFile(bytes.NewReader(written), int64(len(written)))
	if err != nil || len(file.RowGroups()) != 2 {
		t.Fatal(file, err)
	}
	rows, err := parquet.Read[batchrows.Row](bytes.NewReader(written), int64(len(written)))
	if err != nil || len(rows) != 2 {
		t.Fatal(rows, err)
	}
	choice := &batchrows.Constraint{Kind: "choice", Choices: []string{"a", "b"}}
	want := batchrows.Row{Run: "demo", Step: 1, Group: 3, Agent: "X", TrajectoryID: "demo/3/0/X", Reward: 1,
		Advantage: 0.5, PolicyVersion: 3, TokenIDs: []int32{1, 2, 3, 4}, LossMask: []int8{0, 1, 0, 1},
		Logprobs: []float32{0, -0.1, 0, -12.345679}, PolicyVersions: []int64{-1, 4, -1, 3}, Turns: []batchrows.Turn{
			{Begin: 1, End: 2, Phase: "a", PolicyVersion: 4, FinishReason: "stop", Text: "a\u009b", Constraint: choice},
			{Begin: 3, End: 4, Phase: "b", PolicyVersion: 3, FinishReason: "stop", Text: "b"}}}
	if !reflect.DeepEqual(rows[1], want) {
		t.Errorf("%+v\nwant\n%+v", rows[1], want)
	}
}

// TestExportLeavesNoPart: a step that cannot be had is an error that says which, and the file is as it was.
func TestExportLeavesNoPart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"--steps 0..2", ExitError, "the batch of step 2 of run demo is not kept"},
		{"--steps 0..2 -o parquet", ExitError, "the batch of step 2"},
		{"--steps 3", ExitError, "read the batch of step 3: unexpected end"},
		{"--steps 4", ExitNotFound, "step 4 of run demo was not claimed yet; wait for its trainer: millrace run watch demo"},
		{"", ExitUsage, `--steps "": want a step`},
		{"--steps 1..0", ExitUsage, "such as 0..9"},
		{"--steps -1", ExitUsage, "such as 0..9"},
		{"--steps 0..", ExitUsage, "such as 0..9"},
		{"--steps 0 -o json", ExitUsage, "-o json: use ndjson or parquet"},
	} {
		folder := t.TempDir()
		to := filepath.Join(folder, "out")
		if err := os.WriteFile(to, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, _ := command(t, batches, "", nil, strings.Fields("run export demo "+tt.args+" --to "+to)...)
		if got.code != tt.code || got.err == nil || !strings.Contains(got.err.Error(), tt.says) {
			t.Errorf("%s: %d, %v; want %s", tt.args, got.code, got.err, tt.says)
		}
		files, err := os.ReadDir(folder)
		if content, _ := os.ReadFile(to); err != nil || len(files) != 1 || string(content) != "before" {
			t.Errorf("%s: left %v with %q", tt.args, files, content)
		}
	}
}
