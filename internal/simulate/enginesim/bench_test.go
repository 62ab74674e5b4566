package enginesim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// moves is the size of a movement phase's constraint: a few hundred orders for five units.
func moves(variant int) string {
	var b strings.Builder
	for u, unit := range []string{"A PAR", "A MAR", "F BRE", "A BUR", "F MAO"} {
		fmt.Fprintf(&b, `%s (H|- (BUR|GAS|PIC|BRE|SPA|PIE|MAO|ENG)|S (A PAR - (BUR|GAS|PIC)|A MAR( - (SPA|PIE|GAS))?|A MUN - (BUR|RUH|TYR)|F BRE( - (ENG|MAO))?|A R%c%c H)|C (A PAR - (LON|WAL)))\n`,
			unit, 'A'+variant%26, 'A'+(variant/26+u)%26)
	}
	return b.String()
}

// BenchmarkCompletions drives one engine flat out over HTTP with the reference call: about 440
// prompt tokens, a fresh constraint for every six calls, token ids and log-probabilities. The
// client's work is included in the CPU time.
func BenchmarkCompletions(b *testing.B) {
	r := start(b, fast(func(c *Config) { c.Speed = 1e6 }))
	static := strings.Repeat("You play Diplomacy. Give one legal order for each of your units, one per line. ", 22)
	var mu sync.Mutex
	next, tokens := 0, 0
	before := cpuTime(b)
	b.ResetTimer()
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= b.N {
					return
				}
				prompt, _ := json.Marshal(fmt.Sprintf("%s\nTurn %d\n<orders>\n", static, i/6))
				regex, _ := json.Marshal(moves(i / 6))
				c := r.completion(fmt.Sprintf(`{"prompt": %s, "max_tokens": 120, "temperature": 0.8, "logprobs": 0, "return_token_ids": true, "structured_outputs": {"regex": %s}}`, prompt, regex))
				mu.Lock()
				tokens += c.Usage.CompletionTokens
				mu.Unlock()
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "completions/s")
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/completion")
	b.ReportMetric(float64(tokens)/float64(b.N), "tokens/completion")
	http.DefaultClient.CloseIdleConnections()
}

// cpuTime is what this process has used so far.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
