package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/kit/supervise"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/provider/commandline"
)

// What a command may say.
const (
	mostOut = 4 << 20
	mostErr = 16 << 10
)

// run runs a command to its end, and returns its output. When ctx is over, it and its children are killed. A process
// that it leaves in the background is left alone, even if it holds the command's output open.
func (p *Provider) run(ctx context.Context, command string, r request) ([]byte, error) {
	words, err := commandline.Split(command)
	if err != nil {
		return nil, err
	}
	in, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	out, errs := &bounded{most: mostOut}, &bounded{most: mostErr}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout.Std())
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = p.cfg.Dir
	cmd.Env = append(p.environment(), "MILLRACE_CALL="+r.Call, "MILLRACE_DEPLOYMENT="+r.Deployment,
		"MILLRACE_ENGINE_ID="+string(r.ID))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(in, '\n')), out, errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it goes on to its end if the worker dies
	cmd.Cancel = func() error {
		supervise.SignalGroup(cmd, syscall.SIGKILL)
		return nil
	}
	cmd.WaitDelay = time.Second
	began := time.Now()
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s was killed after %s: %w%s", command, time.Since(began).Round(time.Millisecond),
			ctx.Err(), said(errs, cmd.Env))
	case errors.Is(err, exec.ErrWaitDelay): // it ended well, and has left something in the background
	case err != nil:
		return nil, fmt.Errorf("%s: %w%s", command, err, said(errs, cmd.Env))
	}
	if out.dropped {
		return nil, fmt.Errorf("%s wrote more than %d MiB", command, mostOut>>20)
	}
	return out.Bytes(), nil
}

// environment is the environment of all commands.
func (p *Provider) environment() []string {
	return append(provider.Environment(os.Environ()), p.cfg.Env...)
}

// said is the end of what a command said, behind a fault.
func said(errs *bounded, env []string) string {
	if last := provider.LastWords([]byte(provider.Redact(errs.String(), env))); last != "" {
		return "; the last that it said:\n" + last
	}
	return ""
}

// bounded keeps the beginning of what is written.
type bounded struct {
	bytes.Buffer
	most    int
	dropped bool
}

// Write never fails, so that a command is not stopped by what it says.
func (b *bounded) Write(p []byte) (int, error) {
	room := b.most - b.Len()
	if len(p) > room {
		b.dropped = true
		b.Buffer.Write(p[:room])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}
