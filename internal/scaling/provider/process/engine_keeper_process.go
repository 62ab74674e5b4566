package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/kit/filelock"
	"github.com/millrace/millrace/internal/kit/supervise"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// Keep runs the engine of an order until it ends, or until this process is told to end. It returns at once, without an
// error, if the order has a keeper, was carried out, is to end, or is not that of the attempt.
func Keep(dir, attempt string) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // not ignored: the engine would ignore it, too

	lock, err := os.OpenFile(dir+"/"+keeperLock, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was stopped before it began
	}
	if err != nil {
		return err
	}
	defer lock.Close() // and with it the order is without a keeper
	if taken, err := hold(lock); !taken {
		return err
	}
	o := readOrder(dir)
	if o.bad != nil {
		return fmt.Errorf("read the order: %w", o.bad)
	}
	r, err := o.readRecord()
	if err != nil {
		return fmt.Errorf("read what became of the order: %w", err)
	}
	if !r.StartedAt.IsZero() || o.stopping() || o.Nonce != os.Getenv(mark) || o.Place == nil ||
		o.Place.Attempt != attempt {
		return nil
	}
	syscall.CloseOnExec(begunFile) // or the engine would hold it
	return (&keeper{order: o, signals: signals, begun: os.NewFile(begunFile, "begun")}).run()
}

// begunFile is the descriptor by which a keeper says that it has begun.
const begunFile = 3

// keeper runs one engine once.
type keeper struct {
	*order
	record
	signals chan os.Signal
	begun   io.WriteCloser
	log     *boundedLog
}

// run holds its thread: the kernel kills the engine when the thread that started it ends.
func (k *keeper) run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	k.log = openBoundedLog(k.file(logFile), k.Place.LogBytes)
	defer k.log.close()
	k.StartedAt = time.Now().UTC()
	if err := k.writeRecord(k.record); err != nil {
		return fmt.Errorf("write down that the engine is started: %w", err)
	}
	cmd, logged, err := k.start()
	if err != nil {
		return k.end(fmt.Sprintf("could not be started: %v", err))
	}
	k.Engine = describeProcess(cmd.Process.Pid)
	_ = k.writeRecord(k.record) // for people; where numbers are needed to find what is left, it is tried once
	say(k.begun)

	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	lifeline := k.watchLifeline()
	var reason string
	select {
	case err := <-exited:
		lived := time.Since(k.StartedAt).Seconds()
		reason = fmt.Sprintf("ended with %s after %s", supervise.DescribeExit(err), units.Seconds(lived))
		if err == nil {
			reason += "; its command must stay in the foreground as long as the engine is to live"
		}
	case sig := <-k.signals:
		reason = fmt.Sprintf("its keeper was told to end (%s)", sig)
		k.terminate(cmd, exited)
	case <-lifeline:
		reason = "what it was started for has ended"
		k.terminate(cmd, exited)
	}
	supervise.SignalGroup(cmd, syscall.SIGKILL) // what the engine itself has started and left
	killMarked(k.Nonce, k.Engine)
	select {
	case <-logged:
	case <-time.After(time.Second): // a process that could not be killed holds the log
	}
	if last := provider.LastWords([]byte(provider.Redact(string(k.log.tail()), cmd.Env))); last != "" {
		reason += "; the last that it said:\n" + last
	}
	return k.end(reason)
}

// start starts the engine in a process group of its own. logged is closed when all that it and its children say is in
// the log.
func (k *keeper) start() (cmd *exec.Cmd, logged <-chan struct{}, err error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	// The command is looked for on the engine's own path.
	env := append(os.Environ(), k.Place.Env...)
	for _, assignment := range k.Place.Env {
		if path, ok := strings.CutPrefix(assignment, "PATH="); ok {
			_ = os.Setenv("PATH", path)
		}
	}
	cmd = exec.Command(k.Place.Command[0], k.Place.Command[1:]...)
	cmd.Env, cmd.Dir = env, k.Place.Dir
	cmd.Stdout, cmd.Stderr = in, in
	cmd.SysProcAttr = supervise.ChildAttributes()
	if err := cmd.Start(); err != nil {
		_ = out.Close()
		return nil, nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer out.Close()
		_, _ = io.Copy(k.log, out) // the log takes everything
	}()
	return cmd, done, nil
}

// terminate has the engine end, kindly at first.
func (k *keeper) terminate(cmd *exec.Cmd, exited <-chan error) {
	supervise.SignalGroup(cmd, syscall.SIGTERM)
	select {
	case <-exited:
	case <-time.After(k.Place.Grace):
		supervise.SignalGroup(cmd, syscall.SIGKILL)
		<-exited
	}
}

// watchLifeline closes its channel when no process holds the lifeline any more.
func (k *keeper) watchLifeline() <-chan struct{} {
	if k.Place.Lifeline == "" {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = filelock.AwaitRelease(k.Place.Lifeline) // a missing file is not held
	}()
	return ended
}

// end writes down why the engine ended, before the lock is released.
func (k *keeper) end(reason string) error {
	k.EndedAt, k.Reason = time.Now().UTC(), reason
	err := k.writeRecord(k.record)
	say(k.begun)
	return err
}
