package memorycost

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	bad := Config{Games: []int{12, 7}, Claims: []int{5}, Phases: 3, Samples: 6}
	err := bad.Validate()
	for _, word := range []string{"games: [12 7]", "claims: [5]", "phases: 3", "7 is no multiple"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not among the faults: %v", word, err)
		}
	}
}

// What a process says of itself is found in the words of Linux and of the Go runtime.
func TestNumbers(t *testing.T) {
	t.Parallel()
	if n, err := residentOf("VmPeak:\t  999 kB\nVmRSS:\t   12 kB\nRssAnon:\t 1 kB\n"); err != nil || n != 12<<10 {
		t.Errorf("resident %d, %v", n, err)
	}
	heap := "heap profile: 1: 2 [3: 4] @ heap/1048576\n# HeapAlloc = 4321\n# Stack = 77 / 88\n"
	if n, err := numberAfter(heap, "# Stack = "); err != nil || n != 77 {
		t.Errorf("stacks %d, %v", n, err)
	}
	if _, err := numberAfter(heap, "# HeapInuse = "); err == nil {
		t.Error("found what is not there")
	}
}

func TestKindsOfKeys(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"millrace:{run}:group:12": Groups, "millrace:{run/12/3}:journal": Journals, "millrace:{run/12/3}:final": Finals,
		"millrace:{run}:games:12": Attempts, "millrace:{run}:step:0": Steps, "millrace:{run}:run": Account,
		"millrace:{run}:inflight": Account, "millrace:{run}:facts:step": Events, "millrace:{run}:events": Events,
		"millrace:{fleet}:events": Others, "millrace:runs": Others,
	} {
		if got := kindOf(key); got != want {
			t.Errorf("%s is of %q, want %q", key, got, want)
		}
	}
}

// What one more takes is the difference between the largest number and the smallest, whatever was there before.
func TestSlope(t *testing.T) {
	t.Parallel()
	rows := []Row{
		{Games: 10, PromptTokens: 90, CompletionTokens: 10}, {Games: 30, PromptTokens: 280, CompletionTokens: 20},
	}
	for i := range rows {
		rows[i].First.Worker = Process{Heap: 1000 + 7*int64(rows[i].Games), Stacks: 3 * int64(rows[i].Games)}
		rows[i].Ready.Redis.Used = 50 + 2*rows[i].tokens()
	}
	if s := slopesOf(rows); s.WorkerHeapFirst != 10 || s.RedisReady != 2 {
		t.Errorf("%v per game, %v per token", s.WorkerHeapFirst, s.RedisReady)
	}
}
