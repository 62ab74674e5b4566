package process

import (
	"context"
	"errors"
	"fmt"
	"github.com/millrace/millrace/internal/scaling/provider"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// mark is the variable that marks the processes of an order.
const mark = "MILLRACE_ENGINE_ORDER"

// keeperPatience is how long a keeper may take to begin.
const keeperPatience = 20 * time.Second

// launch starts the order's keeper and waits until it has started the engine. If ctx ends before, the keeper goes on,
// and the next look finds what it did.
func (p *Provider) launch(ctx context.Context, o *order) error {
	said, says, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the keeper of engine %s: %w", o.ID, err)
	}
	defer said.Close()
	cmd := exec.Command(p.keeper[0], append(p.keeper[1:], o.dir, o.Place.Attempt)...)
	cmd.Env = append(provider.Environment(os.Environ()), mark+"="+o.Nonce)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // neither the worker's end nor a terminal's reaches it
	cmd.ExtraFiles = []*os.File{says}
	if log, err := os.OpenFile(o.file(keeperLog), os.O_APPEND|os.O_WRONLY, 0); err == nil {
		cmd.Stderr = log
		defer log.Close()
	}
	err = cmd.Start()
	_ = says.Close()
	if err != nil {
		return fmt.Errorf("start the keeper of engine %s: %w", o.ID, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // for as long as this process lives; afterwards init's
	word := make(chan bool, 1)
	go func() {
		n, _ := said.Read(make([]byte, 1))
		word <- n == 1
	}()
	ctx, cancel := context.WithTimeout(ctx, keeperPatience)
	defer cancel()
	select {
	case <-ctx.Done():
		return fmt.Errorf("the keeper of engine %s has not begun: %w", o.ID, ctx.Err())
	case began := <-word:
		if began {
			return nil
		}
	}
	return keeperFault(o, <-ended)
}

// keeperFault is why a keeper ended without a word; nil if another one has the order.
func keeperFault(o *order, exit error) error {
	if exit == nil {
		return nil
	}
	text, _ := os.ReadFile(o.file(keeperLog))
	return fmt.Errorf("the keeper of engine %s ended with %w: %s", o.ID, exit, provider.LastWords(text))
}

// exitPatience is how long a process that is ending may hold its locks still.
const exitPatience = 2 * time.Second

// signalKeeper signals the process that holds the order's lock, and no other: the process with its pid must still hold
// the lock and have the order's mark when it is signalled.
func (o *order) signalKeeper(sig os.Signal) error {
	pid, err := holder(o.file(keeperLock))
	if pid == 0 || err != nil {
		return err
	}
	holds := func() bool {
		again, err := holder(o.file(keeperLock))
		return err == nil && again == pid
	}
	if pid != unseen {
		// The lock of an unreadable order may not name its mark; but only a keeper locks it.
		ours := func() bool { return holds() && (o.bad != nil && o.Nonce == "" || isMarked(pid, o.Nonce)) }
		err := killIf(pid, ours, sig)
		if !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	// A process that is ending loses its environment, and so its mark, a moment before its locks.
	for deadline := time.Now().Add(exitPatience); pid != unseen && holds() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if holds() {
		return fmt.Errorf("its keeper is not a process that can be seen from here: %s is used by several hosts or "+
			"containers; give each its own state_dir", o.dir)
	}
	return nil
}

// say tells the starter of this keeper that the engine was started.
func say(w io.WriteCloser) {
	_, _ = w.Write([]byte("k")) // the reader may be gone
	_ = w.Close()
}
