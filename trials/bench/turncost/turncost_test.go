package turncost

import (
	"bytes"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kit/processortime"
	"github.com/millrace/millrace/trials/bench/benchservice"
)

// A profile of the Go runtime is read with the names of the functions that ran. Beside no other test: what it burns is
// what this process uses.
func TestReadProfile(t *testing.T) {
	if processortime.Own() == 0 {
		t.Skip("this system does not say what a process used")
	}
	var packed bytes.Buffer
	if err := pprof.StartCPUProfile(&packed); err != nil {
		t.Skip("somebody else makes a profile of this process:", err)
	}
	for begun := processortime.Own(); processortime.Own()-begun < 0.3; {
		burn()
	}
	pprof.StopCPUProfile()
	samples, err := readProfile(packed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	inside := 0.0
	for _, s := range samples {
		if slices.ContainsFunc(s.stack, func(name string) bool { return strings.HasSuffix(name, "turncost.burn") }) {
			inside += s.sec
		}
	}
	if inside < 0.01 {
		t.Errorf("%.3f s of a function that used 0.3 s, in %d samples", inside, len(samples))
	}
	if _, err := readProfile(packed.Bytes()[:packed.Len()/2]); err == nil {
		t.Error("read a profile that is cut off")
	}
}

//go:noinline
func burn() {
	b := make([]byte, 1<<16)
	for i := range b {
		b[i] = byte(i * i)
	}
}

func TestDivide(t *testing.T) {
	t.Parallel()
	got := divide([]sample{
		{[]string{"encoding/json.Unmarshal", ours + "internal/engine/vllm.(*Client).complete", ours +
			"internal/game/episode.ask"}, 3},
		{[]string{"runtime.gcAssistAlloc", "runtime.mallocgc", "encoding/json.Unmarshal", ours + "internal/engine/vllm.x"},
			1},
		{[]string{"syscall.write", "github.com/redis/go-redis/v9.write", ours + "internal/store/buffer.(*journal).Answer"},
			2},
		{[]string{"main.other"}, 2},
	})
	var names []string
	for _, p := range got {
		names = append(names, p.Name)
	}
	want := []string{"call to the engine", restPart, "save of answers", "garbage collection"}
	if !slices.Equal(names, want) {
		t.Errorf("parts %q, want %q", names, want)
	}
	if got[0].Share != 3.0/8 || got[0].Kinds["JSON"] != 3 {
		t.Errorf("%+v", got[0])
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	c := DefaultConfig()
	n := c.groups(10)
	if perGroup := c.Samples * 10 * benchservice.Powers; n*perGroup < c.Turns || (n-1)*perGroup >= c.Turns {
		t.Errorf("%d groups", n)
	}
	bad := Config{Phases: []int{3, 4000}, Turns: 0, Samples: 0, Games: 0, After: -1}
	err := bad.Validate()
	for _, word := range []string{"phases: 3", "phases: 4000", "turns", "samples", "games", "after", "heartbeat"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not among the faults: %v", word, err)
		}
	}
}
