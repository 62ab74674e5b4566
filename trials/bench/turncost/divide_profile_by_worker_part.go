package turncost

import (
	"cmp"
	"slices"
	"strings"
)

// part is a part of a worker's work, found by the functions that do it.
type part struct {
	name      string
	functions []string // beginnings of their names
}

const (
	ours     = "github.com/millrace/millrace/"
	restPart = "everything else"
)

// parts are in the order in which they are looked for: what others call comes before them, and what calls everything
// comes last. JSON, sockets and the like are in none, so that whoever called them pays; see kinds.
var parts = []part{
	{"this measurement", []string{"runtime/pprof.", "net/http/pprof."}},
	{"garbage collection", []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep",
		"runtime.bgscavenge", "runtime.gcStart", "runtime.gcMarkDone", "runtime.gcMarkTermination"}},
	{"call to the engine", []string{ours + "internal/engine/vllm.", "net/http.(*persistConn)", "net/http.(*Transport)",
		"net/http.(*Client)"}},
	{"save of answers", []string{ours + "internal/store/buffer.(*journal).Answer"}},
	{"save of phases", []string{ours + "internal/store/buffer.(*journal).Phase"}},
	{"sending of both", []string{ours + "internal/store/buffer.(*journalSender)"}},
	{"begin and end of games", []string{ours + "internal/store/buffer.(*Store).OpenJournal",
		ours + "internal/store/buffer.(*Store).Begin", ours + "internal/store/buffer.(*Store).Queue",
		ours + "internal/store/buffer.(*Store).SaveEpisode", ours + "internal/store/buffer.(*journal)"}},
	{"commit of groups", []string{ours + "internal/store/buffer.(*Store).CommitGroup",
		ours + "internal/store/buffer.(*Store).Episodes", ours + "activities.(*Activities).CommitGroup"}},
	{"other calls of the buffer", []string{ours + "internal/store/buffer."}},
	{"dispatcher", []string{ours + "internal/engine/dispatch"}},
	{"the game", []string{ours + "internal/game/diplomacy", ours + "internal/game/tictactoe"}},
	{"playing loop", []string{ours + "internal/game/episode", ours + "activities."}},
	{"telemetry", []string{ours + "internal/rollout/telemetry", ours + "internal/observe/runsampler",
		"github.com/prometheus/",
		"go.opentelemetry.io/", ours + "internal/engine/tokenrates"}},
	{"fleet and registry", []string{ours + "internal/engine/fleet", ours + "internal/engine/share/workerregistry"}},
	{"workflows", []string{ours + "workflows.", ours + "internal/run/runmachine"}},
	{"Temporal SDK", []string{"go.temporal.io/", "google.golang.org/grpc", "golang.org/x/net/http2"}},
	{"Redis client by itself", []string{"github.com/redis/go-redis/"}},
	{"Go scheduler", []string{"runtime.mcall", "runtime.schedule", "runtime.findRunnable", "runtime.mstart",
		"runtime.sysmon", "runtime.park_m", "runtime.goexit0", "runtime.gosched_m"}},
}

// kinds are what a part's work is made of, looked for in this order.
var kinds = []part{
	{"JSON", []string{"encoding/json."}},
	{"packing", []string{"github.com/klauspost/compress/", ours + "internal/store/buffer/pack.", "compress/"}},
	{"sockets", []string{"internal/poll.(*FD)", "syscall.", "internal/runtime/syscall", "runtime.netpoll"}},
	{"memory", []string{"runtime.mallocgc", "runtime.growslice", "runtime.newobject", "runtime.makeslice",
		"runtime.memclr", "runtime.memmove"}},
}

const restKind = "rest"

// Part is a part of the worker's work: seconds by kind.
type Part struct {
	Name   string             `json:"part"`
	Sec    float64            `json:"profiled_s"`
	Share  float64            `json:"share"`
	TurnUs float64            `json:"us_per_turn"` // of the kernel's account, shared out as the profile says
	Kinds  map[string]float64 `json:"us_per_turn_by_kind"`
}

// divide adds samples up by part and kind, the largest part first.
func divide(samples []sample) []Part {
	byName := map[string]*Part{}
	total := 0.0
	for _, s := range samples {
		name := find(parts, s.stack, restPart)
		p := byName[name]
		if p == nil {
			p = &Part{Name: name, Kinds: map[string]float64{}}
			byName[name] = p
		}
		p.Sec += s.sec
		p.Kinds[find(kinds, s.stack, restKind)] += s.sec
		total += s.sec
	}
	all := make([]Part, 0, len(byName))
	for _, p := range byName {
		p.Share = p.Sec / total
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Sec, a.Sec), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// find is the first of them that has a function in the stack.
func find(among []part, stack []string, otherwise string) string {
	for i := range among {
		for _, begins := range among[i].functions {
			if slices.ContainsFunc(stack, func(function string) bool { return strings.HasPrefix(function, begins) }) {
				return among[i].name
			}
		}
	}
	return otherwise
}
