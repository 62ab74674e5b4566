package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// rewrite puts another text in a file's place, as an editor does, or Kubernetes with a mounted secret.
func rewrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// TestAServerTakesUpItsConfiguration: what may be taken up while it runs is, what may not is named, a faulty file
// changes nothing, and SIGHUP has it look at once.
func TestAServerTakesUpItsConfiguration(t *testing.T) {
	t.Parallel()
	file, base := filepath.Join(t.TempDir(), "service.yaml"), "temporal: {address: 127.0.0.1:1}\n"
	rewrite(t, file, base)
	address := freeTestAddress(t)
	p := millrace(t, "server", "-c", file, "--listen", address, "--redis", "redis://"+miniredis.RunT(t).Addr()+"/0")
	p.await("Temporal does not answer", 0) // It serves by then.
	post := func() int {
		t.Helper()
		resp, err := http.Post("http://"+address+"/v1/runs", "application/json",
			bytes.NewReader(append([]byte(`{"name":"`), bytes.Repeat([]byte("x"), 3000)...)))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := post(); got == http.StatusRequestEntityTooLarge {
		t.Fatal("3 kB are too much from the start")
	}

	rewrite(t, file, base+"limits: {max_body_bytes: 2048, engines: 1}\nlisten: 127.0.0.1:9\nredis: {prefix: other}\n"+
		"engines: [{url: 'http://127.0.0.1:9001', id: one}]\n")
	_, n := p.await(`a restart alone" key=redis.prefix in_force=millrace in_file=other`, 0)
	_, n = p.await(`taken up .* key=limits.max_body_bytes was=1048576 is=2048`, n)
	_, n = p.await(`read again.* what=configuration`, n)
	if got := post(); got != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of 3 kB where 2 are allowed: status %d", got)
	}
	_, engines, _ := commanded("engine", "list", "--server", "http://"+address)
	if !strings.Contains(engines, "127.0.0.1:9001") {
		t.Errorf("the engine of the file has not joined: %s", engines)
	}

	rewrite(t, file, base+"limits: {max_body_bytes: 2 GB}\n")
	_, n = p.await(`stays in force" what=configuration .*max_body_bytes`, n)
	if got := post(); got != http.StatusRequestEntityTooLarge {
		t.Errorf("with a faulty file: status %d", got)
	}
	rewrite(t, file, base+"log_level: error\n")
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	_, n = p.await(`key=log_level was=info is=error`, n)
	for post() == http.StatusRequestEntityTooLarge {
		if err := t.Context().Err(); err != nil {
			t.Fatal("the bound is never the default again")
		}
	}
	rewrite(t, file, base+"log_level: debug\n")
	p.await(`key=log_level was=error is=debug`, n)
	if strings.Contains(p.said(), "key=listen") {
		t.Error("a key that the command line overrides is reported")
	}
}

// TestAWorkerTakesUpItsConfiguration: also while Temporal is away, and SIGHUP does not end it.
func TestAWorkerTakesUpItsConfiguration(t *testing.T) {
	t.Parallel()
	file, base := filepath.Join(t.TempDir(), "service.yaml"), "temporal: {address: 127.0.0.1:1}\nworker: {listen: ''}\n"
	rewrite(t, file, base)
	p := millrace(t, "worker", "-c", file, "--redis", "redis://"+miniredis.RunT(t).Addr()+"/0")
	_, n := p.await("temporal does not answer yet", 0)
	rewrite(t, file, base+"retention: 7d\nspool: {max_bytes: 1000}\n")
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	_, n = p.await(`a restart alone" key=spool.max_bytes`, n)
	_, n = p.await(`key=retention was=0s is=168h`, n)
	rewrite(t, file, "retention: [\n")
	p.await(`stays in force" what=configuration`, n)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
}
