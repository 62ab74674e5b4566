package workload_test

import (
	"bytes"
	"compress/gzip"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/sim/workload"
)

// TestKnownTraces: the figures that traces/README.md gives.
func TestKnownTraces(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		rows           int
		last           time.Duration
		prompt, output float64 // mean
	}{
		{"azure-conversation-2023", 19366, 3502 * time.Second, 1155, 211},
		{"azure-code-2023", 8819, 3436 * time.Second, 2048, 28},
		{"burstgpt-surrogate", 1000, 49382 * time.Second, 0, 0},
		{"mooncake-conversation", 12031, 3537 * time.Second, 12035, 343},
	} {
		trace, ok := workload.KnownTrace(tt.name)
		if !ok {
			t.Errorf("there is no %s", tt.name)
			continue
		}
		var prompt, output float64
		for _, a := range trace.Arrivals {
			prompt += float64(a.Prompt)
			output += float64(a.Output)
		}
		n := float64(len(trace.Arrivals))
		last := trace.Arrivals[len(trace.Arrivals)-1].At
		if len(trace.Arrivals) != tt.rows || (last-tt.last).Abs() > 2*time.Second {
			t.Errorf("%s: %d rows to %v", tt.name, len(trace.Arrivals), last)
		}
		if tt.prompt > 0 && (math.Abs(prompt/n-tt.prompt) > 1 || math.Abs(output/n-tt.output) > 1) {
			t.Errorf("%s: mean lengths %g and %g", tt.name, prompt/n, output/n)
		}
		if tt.prompt == 0 && prompt+output != 783060 {
			t.Errorf("%s: %g tokens", tt.name, prompt+output)
		}
	}
	if got := len(workload.TraceNames()); got != 4 {
		t.Errorf("%d traces come along", got)
	}
}

func TestReadTrace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"CSV", "arrival_s,prompt_tokens,output_tokens\n0,10,2\n1.5,20,3\n", "0s:10+2 1.5s:20+3"},
		{"a mark before it", "\uFEFFarrival_s\n0\n1\n", "0s:0+0 1s:0+0"},
		{"other columns between", "id,Timestamp,Model,Request tokens,Response tokens\nx,5,gpt,472,18\n", "5s:472+18"},
		{"milliseconds", "arrival_ms,prompt_tokens,output_tokens\n0,1,1\n1500,1,1\n", "0s:1+1 1.5s:1+1"},
		{"dates", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n" +
			"2023-11-16 18:15:50.9951690,396,109\n",
			"0s:374+44 4.314579s:396+109"},
		{"seconds since 1970", "time\n1700000000\n1700000002.5\n", "0s:0+0 2.5s:0+0"},
		{"one column without a header", "0\n3\n7.5\n", "0s:0+0 3s:0+0 7.5s:0+0"},
		{"calls of several prompts", "arrival_s,prompts\n0,2\n4,1\n", "0s:0+0 0s:0+0 4s:0+0"},
		{"comments and spaces", "# from my router\narrival_s, prompts\n0, 1\n", "0s:0+0"},
		{"JSON numbers", "[0, 1.5,\n 3]", "0s:0+0 1.5s:0+0 3s:0+0"},
		{"JSON objects", `[{"arrival_time": 0, "prompts": ["a", "b"]}, {"arrival_time": 2, "prompts": ["c"]}]`,
			"0s:0+0 0s:0+0 2s:0+0"},
		{"JSON under a key", `{"host": "x", "batches": [{"t": 1, "prompt_tokens": 5, "output_tokens": 6}]}`, "1s:5+6"},
		{"JSON lines", "{\"timestamp_ms\": 500}\n{\"timestamp_ms\": 750}\n", "500ms:0+0 750ms:0+0"},
		{"one JSON object", `{"timestamp": 3, "count": 1}`, "3s:0+0"},
		{"JSON dates", `["2025-01-01T00:00:00Z", "2025-01-01T00:00:09Z"]`, "0s:0+0 9s:0+0"},
	} {
		for _, packed := range []bool{false, true} {
			data := []byte(tt.text)
			if packed {
				data = pack(t, data)
			}
			trace, err := workload.ReadTrace("t", data, workload.Times)
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
				continue
			}
			if got := show(trace); got != tt.want {
				t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
			}
		}
	}
}

// TestReadTraceRefuses: one error, with file, line and what to do.
func TestReadTraceRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text, want string
		need             workload.Need
	}{
		{"nothing", "", "t.csv: the file is empty: want arrivals, as CSV with a header or as JSON", 0},
		{"only a header", "arrival_s\n", "t.csv: no rows: a header alone says nothing; add one row for each arrival", 0},
		{"no arrival column", "when,what\n1,2\n",
			`t.csv:1: no column for the arrival time among "when", "what": name it arrival_s`, 0},
		{"no lengths", "arrival_s\n1\n",
			`t.csv:1: no column for the prompt's tokens among "arrival_s": name it prompt_tokens`, workload.Lengths},
		{"no answer's length", "arrival_s,prompt_tokens\n1,2\n",
			`t.csv:1: no column for the answer's tokens among "arrival_s", "prompt_tokens": name it output_tokens`,
			workload.Lengths},
		{"a column given twice", "arrival_s,prompts,arrival_s\n0,1,2\n", `t.csv:1: two columns are called "arrival_s": keep one`,
			0},
		{"negative time", "arrival_s\n0\n-1\n", `t.csv:3: the arrival time "-1" is negative: times count from 0`, 0},
		{"unsorted", "arrival_s\n0\n5\n3\n",
			"t.csv:4: the arrival at 3s comes after one at 5s: sort the rows by arrival time", 0},
		{"no number", "arrival_s\n0\nsoon\n",
			`t.csv:3: "soon" is no time: want a number of seconds, or a date such as 2023-11-16 18:15:46.68`, 0},
		{"not a number", "arrival_s\nNaN\n",
			`t.csv:2: "NaN" is no time: want a number of seconds, or a date such as 2023-11-16 18:15:46.68`, 0},
		{"half a token", "arrival_s,prompt_tokens,output_tokens\n0,1.5,2\n",
			`t.csv:2: the prompt's tokens is "1.5": want a whole number`, workload.Lengths},
		{"negative tokens", "arrival_s,prompt_tokens,output_tokens\n0,1,-2\n",
			`t.csv:2: the answer's tokens is "-2": want at least 0`, workload.Lengths},
		{"no prompts", "arrival_s,prompts\n0,0\n", `t.csv:2: the count of prompts is "0": want at least 1`, 0},
		{"a field too few", "arrival_s,prompts\n0\n", "t.csv:2: this row has more or fewer fields than the header", 0},
		{"torn JSON", "[1,\n2", "t.csv:2: this is no JSON: unexpected EOF", 0},
		{"JSON unsorted", "[1,\n2,\n1.5]",
			"t.csv:3: the arrival at 1.5s comes after one at 2s: sort the rows by arrival time", 0},
		{"JSON without times", "[{\"a\": 1}]", `t.csv:1: no key for the arrival time among "a": name it arrival_s`, 0},
		{"JSON that is no time", "[0,\n\"x\"]",
			`t.csv:2: "x" is no time: want a number of seconds, or a date such as 2023-11-16 18:15:46.68`, 0},
		{"an empty list", "[]", "t.csv: no rows: a header alone says nothing; add one row for each arrival", 0},
		{"a damaged pack", "\x1f\x8bxx", "t.csv: it begins like a gzip file and is none: unexpected EOF", 0},
	} {
		_, err := workload.ReadTrace("t.csv", []byte(tt.text), tt.need)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s:\n got %v\nwant %s", tt.name, err, tt.want)
		}
	}
}

// FuzzReadTrace: whatever stands in a file, times do not go back and no length is negative.
func FuzzReadTrace(f *testing.F) {
	for _, seed := range []string{"arrival_s\n1\n2\n", "[1,2]", `{"x":[{"t":1}]}`, "1\n2\n", "t,count\n1,3\n", "\"", "[[", "{}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		trace, err := workload.ReadTrace("f", data, workload.Times)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		for i, a := range trace.Arrivals {
			if a.Prompt < 0 || a.Output < 0 || a.At < 0 || i > 0 && a.At < trace.Arrivals[i-1].At {
				t.Fatalf("arrival %d is %+v", i, a)
			}
		}
	})
}

func pack(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
