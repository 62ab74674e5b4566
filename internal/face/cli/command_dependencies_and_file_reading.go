package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/termtext"
)

// Deps are the commands' links to the process around them.
type Deps struct {
	Stdin  io.Reader
	Stdout io.Writer // data
	Stderr io.Writer // everything said to a person
	HTTP   *http.Client
	Getenv func(string) string
	Now    func() time.Time // nil means time.Now
}

func (d Deps) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}

// Say tells a person something.
func (d Deps) Say(format string, args ...any) {
	fmt.Fprintln(d.Stderr, termtext.Block(fmt.Sprintf(format, args...)))
}

// Server is the server that the environment names, or the default one.
func (d Deps) Server() string {
	if url := d.Getenv("MILLRACE_SERVER"); url != "" {
		return url
	}
	return apiclient.DefaultServer
}

// Client calls a server, with the environment's token.
func (d Deps) Client(server string) (Client, error) {
	return NewClient(server, d.Getenv("MILLRACE_TOKEN"), d.HTTP)
}

// maxFileBytes bounds a file named on a command line: saved games are the largest.
const maxFileBytes = 64 << 20

// ReadFile reads a file, or standard input for "-".
func (d Deps) ReadFile(path string) ([]byte, error) {
	r := d.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close() // it is only read
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err == nil && len(data) > maxFileBytes {
		err = Usage("%s is larger than %d MiB", path, maxFileBytes>>20)
	}
	return data, err
}
