package program

import (
	"bytes"
	"context"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/supervise"
)

// Process is a program that is started for each game, with the game in its environment.
type Process struct {
	Args []string
	Env  []string                   // that programs are given beside the game's
	Show func(g *Game, line string) // called with what they write, by several goroutines
}

// Play starts a process, and ends it and what it has started when ctx is done. The kernel kills it when the thread that
// started it ends, and so when this command is killed; hence the locked thread.
func (p *Process) Play(ctx context.Context, g *Game) Ending {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	show := func(line string) { p.Show(g, line) }
	stdout, stderr := &lines{secret: g.APIKey, show: show}, &lines{secret: g.APIKey, show: show}
	cmd := exec.Command(p.Args[0], p.Args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(p.Env, g), stdout, stderr
	cmd.SysProcAttr = supervise.ChildAttributes()
	cmd.WaitDelay = time.Second // for what it has started and left, which may hold its output open
	end := exit{code: -1, leased: g.Leased}
	if err := cmd.Start(); err != nil {
		end.how = err.Error()
		return end.ending()
	}
	_, _ = supervise.Await(cmd, ctx.Done(), nil) // how it ended is in its state
	stdout.flush()
	stderr.flush()
	end.code, end.how = cmd.ProcessState.ExitCode(), cmd.ProcessState.String()
	if len(stdout.last) > 0 {
		end.last = stdout.last[len(stdout.last)-1]
	}
	end.stderr = strings.Join(stderr.last, "\n")
	return end.ending()
}

// environment is what a program is started with: the names that clients of OpenAI and Anthropic read, and the whole
// game. Tokens that are not its own are left out.
func environment(env []string, g *Game) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, "MILLRACE_TOKEN=") || strings.HasPrefix(v, "ANTHROPIC_AUTH_TOKEN=")
	})
	return append(env, "OPENAI_BASE_URL="+g.OpenAI, "OPENAI_API_KEY="+g.APIKey, "ANTHROPIC_BASE_URL="+g.BaseURL,
		"ANTHROPIC_API_KEY="+g.APIKey, "MILLRACE_MODEL="+g.Model, "MILLRACE_GAME="+string(bytes.TrimSpace(g.Document)))
}

// lines shows what is written by the line, without the secret, and keeps the last ones.
type lines struct {
	secret string
	show   func(line string)
	last   []string // that are not blank
	part   []byte
}

const (
	keptLines = 8
	mostLine  = 64 << 10 // bytes, after which a line is broken
)

func (l *lines) Write(b []byte) (int, error) {
	l.part = append(l.part, b...)
	for {
		at := bytes.IndexByte(l.part, '\n')
		if at < 0 && len(l.part) < mostLine {
			return len(b), nil
		}
		if at < 0 {
			at = mostLine - 1
		}
		l.take(l.part[:at+1])
		l.part = l.part[at+1:]
	}
}

func (l *lines) flush() {
	l.take(l.part)
	l.part = nil
}

func (l *lines) take(text []byte) {
	line := strings.TrimRight(string(text), "\r\n")
	if strings.TrimSpace(line) == "" {
		return
	}
	line = strings.ReplaceAll(line, l.secret, "...")
	l.show(line)
	l.last = append(l.last[max(0, len(l.last)-keptLines+1):], line)
}
