// Command millrace is the whole service in one binary: the API server, the workers, the client commands, and
// everything needed to see it work on a laptop. Run it without arguments for the list. Start reading at run.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/millrace/millrace/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	worker.SilenceRedis()
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
