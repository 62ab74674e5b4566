package memorycost

import (
	"fmt"
	"io"
	"strings"

	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/units"
)

// WriteText writes a table of processes, one of Redis's keys, and what their words mean.
func (r Result) WriteText(w io.Writer) error {
	if err := r.processes().Write(w, 0); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nRedis: bytes for each token of the batch, by what keys are for\n\n")
	if err := r.redis().Write(w, 0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(r.notes(), "\n"))
	return err
}

func (r Result) processes() *table.Table {
	columns := []table.Column{table.Left("MEMORY OF")}
	for range r.Rows {
		columns = append(columns, table.Right("AT"), table.Right("LIVE"), table.Right("RESIDENT"))
	}
	t := table.New(append(columns, table.Right("LIVE kB EACH"), table.Right("RESIDENT kB EACH"))...)
	s := r.Slopes
	line := func(name string, n func(*Row) int, of func(*Row) Process, live, resident float64) {
		cells := []string{name}
		for i := range r.Rows {
			p := of(&r.Rows[i])
			cells = append(cells, fmt.Sprint(n(&r.Rows[i])), units.Bytes(p.live()), units.Bytes(p.Resident))
		}
		t.Row(append(cells, kilobytes(live), kilobytes(resident))...)
	}
	line("worker, games in their first phase", games, func(r *Row) Process { return r.First.Worker },
		s.WorkerHeapFirst, s.WorkerResidentFirst)
	line("worker, games in their last phase", games, func(r *Row) Process { return r.Last.Worker },
		s.WorkerHeapLast, s.WorkerResidentLast)
	line("server, claims that wait", claims, func(r *Row) Process { return r.Server }, s.ServerHeap, s.ServerResident)
	return t
}

func kilobytes(n float64) string { return fmt.Sprintf("%.1f", n/1e3) }

func (r Result) redis() *table.Table {
	t := table.New(table.Left("KEYS"), table.Right("FIRST PHASE"), table.Right("LAST PHASE"), table.Right("PEAK"),
		table.Right("READY"), table.Right("CLAIMED"), table.Right("KEYS WHEN READY"))
	row := &r.Rows[len(r.Rows)-1]
	per := func(n int64) string { return fmt.Sprintf("%.3f", float64(n)/float64(row.tokens())) }
	looks := []Look{row.First, row.Last, row.Ready, row.Claimed}
	for _, kind := range kindsOfKeys {
		cells := []string{kind}
		for i, l := range looks {
			cells = append(cells, per(l.Redis.Bytes[kind]))
			if i == 1 {
				cells = append(cells, "")
			}
		}
		t.Row(append(cells, fmt.Sprint(row.Ready.Redis.Keys[kind]))...)
	}
	t.Row("all (used_memory)", per(row.First.Redis.Used), per(row.Last.Redis.Used), per(row.Peak),
		per(row.Ready.Redis.Used), per(row.Claimed.Redis.Used), "")
	t.Row("resident", per(row.First.Redis.Resident), per(row.Last.Redis.Resident), "", per(row.Ready.Redis.Resident),
		per(row.Claimed.Redis.Resident), "")
	return t
}

func (r Result) notes() []string {
	row := &r.Rows[len(r.Rows)-1]
	s := r.Slopes
	return []string{
		"machine   " + r.Machine.String(),
		fmt.Sprintf("redis     real, %s, without AOF; from %d to %d games: %.3f bytes for each token when ready, %.3f when "+
			"claimed, %.3f with journals at their peak, %.1f times as much", r.RedisVersion, r.Rows[0].Games, row.Games,
			s.RedisReady, s.RedisClaimed, s.RedisPeak, s.RedisPeak/s.RedisReady),
		fmt.Sprintf("batch     %d games of %d phases, %d trajectories, %d turns, %d tokens of prompts and %d of completions",
			row.Games, r.Config.Phases, row.Trajectories, row.Turns, row.PromptTokens, row.CompletionTokens),
		fmt.Sprintf("worker    %d goroutines for each game, all of whose requests are at engines",
			row.First.Worker.Goroutines/int64(row.Games)),
		"LIVE      heap after a garbage collection, and stacks; RESIDENT as the kernel counts it, before that collection",
		"token     of a prompt or completion of the batch; one that several prompts have is counted with each",
		"EACH      what one more game or claim takes, from the smallest to the largest number",
		"PEAK      the most while games end and groups are committed, all at a time",
	}
}
