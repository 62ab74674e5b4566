package enginemodel

import (
	"math"
	"os"
	"strings"
	"testing"
)

func TestBatchTimes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		time       BatchTime
		b, longest int
		want       float64
	}{
		{"seed 003, one short request", Seed003Time(), 1, 128, 0.0534},
		{"seed 003, two", Seed003Time(), 2, 128, 0.06108},
		{"seed 003, eight longer", Seed003Time(), 8, 1024, 0.42972},
		{"seed 003, the largest of its grid", Seed003Time(), 32, 2048, 0.86748},
		{"seed 000, 100 s whatever is in the batch", LinearTime{PerBatch: 100}, 7, 9999, 100},
		{"seed 000, 33 s a prompt", LinearTime{PerRequest: 33}, 3, 1, 99},
		{"multi-bin paper, the longest alone", LongestTime(0.5), 128, 20, 10},
		{"a processor without parallelism", LinearTime{PerToken: 0.01, PerRequestToken: 0.02}, 4, 64, 5.76},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.time.Seconds(tt.b, tt.longest)
			if err != nil || math.Abs(got-tt.want) > 1e-12 {
				t.Errorf("got %v, %v; want %v", got, err, tt.want)
			}
		})
	}
	if _, err := (LinearTime{}).Seconds(1, 1); err == nil {
		t.Error("a batch that takes no time was accepted")
	}
}

func openTable(t *testing.T) *TableTime {
	t.Helper()
	f, err := os.Open("testdata/seed003_grid.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table, err := ReadTableTime("seed003_grid.csv", f)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestTableMeetsItsFormula: a table has its own times at its points, lies between them elsewhere, and along lengths,
// in which the formula is linear, it is the formula.
func TestTableMeetsItsFormula(t *testing.T) {
	t.Parallel()
	table, formula := openTable(t), Seed003Time()
	if !strings.Contains(table.Source(), "seed note 003") {
		t.Errorf("source %q", table.Source())
	}
	for _, b := range []int{1, 2, 4, 8, 16, 32} {
		for _, l := range []int{128, 200, 511, 1024, 1999, 2048} {
			got, err := table.Seconds(b, l)
			want, _ := formula.Seconds(b, l)
			if err != nil || math.Abs(got-want) > 1e-9 {
				t.Errorf("%d requests of %d: %v, %v; want %v", b, l, got, err, want)
			}
		}
	}
	below, _ := table.Seconds(4, 1000)
	at, _ := table.Seconds(6, 1000)
	above, _ := table.Seconds(8, 1000)
	if math.Abs(at-(below+above)/2) > 1e-12 {
		t.Errorf("half-way between %v and %v: %v", below, above, at)
	}
}

func TestTableRefusesOrClamps(t *testing.T) {
	t.Parallel()
	table := openTable(t)
	if _, err := table.Seconds(33, 128); err == nil || !strings.Contains(err.Error(), "1 to 32 requests of 128 to 2048") {
		t.Errorf("outside: %v", err)
	}
	clamped := table.Clamped()
	got, err := clamped.Seconds(64, 4096)
	if want, _ := table.Seconds(32, 2048); err != nil || got != want {
		t.Errorf("clamped: %v, %v; want %v", got, err, want)
	}
	if _, err := table.Seconds(1, 1); err == nil {
		t.Error("clamping a copy changed the table")
	}
}

func TestBadTables(t *testing.T) {
	t.Parallel()
	const source = "# source: a test\n"
	for _, tt := range []struct{ name, text, want string }{
		{"no source", "batch_size,max_seq_len,seconds\n1,1,1\n", "t.csv:1: no source"},
		{"empty", source, "no header"},
		{"missing column", source + "batch_size,seconds\n1,1\n", "t.csv:2: no column longest_tokens or max_seq_len"},
		{"no rows", source + "batch_size,longest_tokens,seconds\n", "no times"},
		{"negative", source + "batch_size,longest_tokens,seconds\n1,1,-1\n", "t.csv:3: time \"-1\""},
		{"not a number", source + "batch_size,longest_tokens,seconds\n1,1,NaN\n", "t.csv:3: time \"NaN\""},
		{"size zero", source + "batch_size,longest_tokens,seconds\n0,1,1\n", "t.csv:3: batch size \"0\""},
		{"twice", source + "batch_size,longest_tokens,seconds\n1,1,1\n1,1,2\n",
			"t.csv:4: batch size 1 with length 1 stands on line 3"},
		{"a hole", source + "batch_size,longest_tokens,seconds\n1,1,1\n2,2,2\n", "no time for batch size 1 with length 2"},
		{"short row", source + "batch_size,longest_tokens,seconds\n1,1\n", "t.csv: record on line 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := ReadTableTime("t.csv", strings.NewReader(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
