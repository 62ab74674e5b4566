// Command millrace is the whole service in one binary: the API server, the workers, the client commands, and
// everything needed to see it work on a laptop. Run it without arguments for the list. Start reading at run.
package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/millrace/millrace/internal/kit/timerslack"
	"github.com/millrace/millrace/internal/process/connections"
)

func main() {
	if len(os.Args) > 1 && slices.Contains([]string{"dev", "server", "worker"}, os.Args[1]) {
		timerslack.Widen()
	}
	ctx, stop := untilSignal(context.Background(), os.Args[1:])
	connections.SilenceRedis()
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// untilSignal is done when the process is asked to end: by Ctrl-C, by SIGTERM, or by its terminal being closed,
// unless nohup has it outlive that. Servers and workers take SIGHUP to read their files again: configuration, tokens,
// certificates.
func untilSignal(ctx context.Context, args []string) (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	switch {
	case len(args) > 0 && (args[0] == "server" || args[0] == "worker"):
		// One that comes before the process listens for it ends nothing.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	case !signal.Ignored(syscall.SIGHUP):
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(ctx, signals...)
}
