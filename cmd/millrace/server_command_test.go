package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/kit/freeport"
)

// TestAServerReadsItsTokensAgainOnSIGHUP: and goes on serving; SIGTERM ends it.
func TestAServerReadsItsTokensAgainOnSIGHUP(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	line := "tokens: [{name: a, role: operator, sha256: " + access.HashOf("a-token-of-this-test").String() + "}]\n"
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(t.TempDir(), "service.yaml")
	if err := os.WriteFile(settings, []byte("auth: {tokens_file: "+file+"}\ntemporal: {address: 127.0.0.1:1}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	p := millrace(t, "server", "-c", settings, "--listen", freeTestAddress(t), "--redis",
		"redis://"+miniredis.RunT(t).Addr()+"/0")
	p.await("Temporal does not answer", 0) // It serves by then.
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.await(`read again.* what=tokens`, 0)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
}

// TestStrangersCannotUseUpAServersFiles: with 150 files to open and 300 silent connections, who has a token is
// answered.
func TestStrangersCannotUseUpAServersFiles(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-this-test"
	address := freeTestAddress(t)
	cmd := exec.Command("sh", "-c", `ulimit -n 150; exec "$0" "$@"`, os.Args[0], "server", "--listen", address,
		"--temporal", "127.0.0.1:1", "--redis", "redis://"+miniredis.RunT(t).Addr()+"/0")
	cmd.Env = append(os.Environ(), "MILLRACE_TEST_AS_BINARY=1", "MILLRACE_TOKENS="+token)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // It was told to end.
	})
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func() error {
		req, err := http.NewRequest("GET", "http://"+address+"/v1/runs", nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	}
	err := get()
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); err = get() {
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		t.Fatal("the server never answered:", err)
	}
	for range 300 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	for range 10 {
		if err := get(); err != nil {
			t.Fatal("with 300 silent connections:", err)
		}
	}
}

func freeTestAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// TestAPasswordOfRedisIsOnNoCommandLine: anybody on the machine can read the arguments of a process.
func TestAPasswordOfRedisIsOnNoCommandLine(t *testing.T) {
	t.Parallel()
	d := &devStack{redis: "redis://:hunter2@127.0.0.1:6379/0", temporal: "127.0.0.1:7233"}
	for name, args := range map[string][]string{"server": d.serverArgs("127.0.0.1:0"), "worker": d.workerArgs()} {
		if strings.Contains(strings.Join(args, " "), "hunter2") {
			t.Errorf("the %s's arguments hold the password: %v", name, args)
		}
	}
	if !strings.Contains(strings.Join(d.childEnvironment(), "\n"), "MILLRACE_REDIS_URL="+d.redis) {
		t.Error("the children are not told which Redis to use")
	}
}

// Profiles show what is in memory: they are answered on loopback, and asked for anywhere else refused before anything
// is begun.
func TestProfilesAreForLoopback(t *testing.T) {
	t.Parallel()
	for _, process := range []string{"server", "worker"} {
		code, _, said := commanded(process, "--pprof", "0.0.0.0:6060")
		if code != 2 || !strings.Contains(said, "loopback") {
			t.Errorf("%s: exit code %d, %s", process, code, said)
		}
	}
	address := freeTestAddress(t)
	settings := filepath.Join(t.TempDir(), "service.yaml")
	if err := os.WriteFile(settings, []byte("temporal: {address: 127.0.0.1:1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := millrace(t, "server", "-c", settings, "--listen", freeTestAddress(t), "--redis",
		"redis://"+miniredis.RunT(t).Addr()+"/0", "--pprof", address)
	p.await("answering profiles", 0)
	resp, err := http.Get("http://" + address + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("answered %s", resp.Status)
	}
}

// TestUnitsOfAFaultyConfigurationStayDown: TestRefusals holds what the processes end with.
func TestUnitsOfAFaultyConfigurationStayDown(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"millrace-server.service", "millrace-worker@.service"} {
		data, err := os.ReadFile("../../deploy/systemd/" + unit)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("\nRestartPreventExitStatus=%d\n", cli.ExitConfiguration)
		if !strings.Contains(string(data), want) {
			t.Errorf("%s does not say%s", unit, want)
		}
	}
}
