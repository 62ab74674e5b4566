package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/observe/axiom/axiomtest"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
	"github.com/millrace/millrace/internal/store/spool/spooltest"
)

// TestMain lets this binary be a server, too: one that tests kill as nothing in their own process can be killed.
func TestMain(m *testing.M) {
	if os.Getenv("MILLRACE_TEST_SERVER") == "" {
		os.Exit(spooltest.Main(m))
	}
	cfg, err := config.ReadService("environment", []byte("temporal: {address: 127.0.0.1:1}\n"), os.Getenv)
	if err == nil {
		err = Run(context.Background(), cfg, "test", slog.New(slog.NewTextHandler(os.Stderr, nil)))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// child is a process that can be killed and started again.
type child struct {
	t    *testing.T
	name string
	args []string
	env  []string
	log  string
	cmd  *exec.Cmd
}

func (c *child) start() {
	c.t.Helper()
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	c.cmd = exec.Command(c.name, c.args...)
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = append(os.Environ(), c.env...), log, log
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// kill ends the process as kill -9 does.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may be gone already
	_ = c.cmd.Wait()
}

// killable is a Redis that keeps all it has answered for, two servers, and an Axiom.
type killable struct {
	t       *testing.T
	redis   *child
	servers []*child
	urls    []string
	axiom   *axiomtest.Server
	dir     string
}

const axiomToken = "xaat-00000000-0000-0000-0000-000000000000"

func startKillable(t *testing.T) *killable {
	t.Helper()
	redisServer, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not on the PATH: what a killed Redis has kept is not tried")
	}
	if testing.Short() {
		t.Skip("kills processes for some 20 s")
	}
	k := &killable{t: t, dir: t.TempDir(), axiom: &axiomtest.Server{Token: axiomToken, Dataset: "rl"}}
	k.axiom.Refuse = func(e axiomtest.Event) string {
		if n, _ := e["group_id"].(float64); int(n)%101 == 7 {
			return "no good"
		}
		return ""
	}
	sink := httptest.NewServer(k.axiom)
	t.Cleanup(sink.Close)
	redisAddress := address(t)
	_, port, _ := strings.Cut(redisAddress, ":")
	k.redis = &child{t: t, name: redisServer, log: filepath.Join(k.dir, "redis.log"), args: []string{"--port", port,
		"--bind", "127.0.0.1", "--dir", k.dir, "--appendonly", "yes", "--appendfsync", "always", "--save", ""}}
	k.redis.start()
	t.Cleanup(k.redis.kill)
	for i := range 2 {
		listen := address(t)
		k.urls = append(k.urls, "http://"+listen)
		c := &child{t: t, name: os.Args[0], log: filepath.Join(k.dir, fmt.Sprintf("server-%d.log", i)), env: []string{
			"MILLRACE_TEST_SERVER=1", "MILLRACE_LISTEN=" + listen, "MILLRACE_REDIS_URL=redis://" + redisAddress + "/0",
			"AXIOM_TOKEN=" + axiomToken, "AXIOM_DATASET=rl", "AXIOM_URL=" + sink.URL}}
		c.start()
		t.Cleanup(func() { c.kill() })
		k.servers = append(k.servers, c)
	}
	return k
}

func address(t *testing.T) string {
	t.Helper()
	a, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// status is the sink and the problems as some server tells them; ok is false when none answers.
func (k *killable) status() (sink telemetry.SinkStatus, text string, ok bool) {
	for _, url := range k.urls {
		resp, err := http.Get(url + "/v1/status")
		if err != nil {
			continue
		}
		var body struct {
			Sinks []telemetry.SinkStatus `json:"sinks"`
		}
		var b bytes.Buffer
		_, err = b.ReadFrom(resp.Body)
		_ = resp.Body.Close()
		if err == nil && json.Unmarshal(b.Bytes(), &body) == nil && len(body.Sinks) == 1 {
			return body.Sinks[0], b.String(), true
		}
	}
	return sink, "", false
}

// until waits, for as long as a loaded machine may need, until the sink is as expected.
func (k *killable) until(what string, is func(telemetry.SinkStatus, string) bool) telemetry.SinkStatus {
	k.t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		sink, text, ok := k.status()
		if ok && is(sink, text) {
			return sink
		}
		if time.Now().After(end) {
			logs := ""
			for _, c := range k.servers {
				b, _ := os.ReadFile(c.log)
				logs += string(b)
			}
			k.t.Fatalf("never: %s; the sink is %+v; the logs:\n%s", what, sink, logs)
		}
	}
}

// leader is the server that delivers.
func (k *killable) leader() *child {
	sink := k.until("a server delivers", func(s telemetry.SinkStatus, _ string) bool {
		return s.State == telemetry.SinkOK
	})
	for _, c := range k.servers {
		if strings.Contains(sink.Shipper, fmt.Sprintf("/%d/", c.cmd.Process.Pid)) {
			return c
		}
	}
	k.t.Fatalf("%s delivers, which is none of the servers", sink.Shipper)
	return nil
}

// TestKillsLoseNoFact kills the server that delivers, again and again, and Redis, and lets Axiom refuse the token for a
// while. In the end every fact that was written is at Axiom, or a dead letter, and the counts say the same.
func TestKillsLoseNoFact(t *testing.T) {
	t.Parallel()
	k := startKillable(t)
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + k.redis.args[1]})
	defer rdb.Close()
	emitter := store.New(rdb, "millrace", store.Limits{})
	go emitter.Run(context.Background())
	stop, stopped := make(chan struct{}), make(chan struct{})
	written := map[string]bool{}
	go func() { // a worker's emitter, 100 facts per second
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			e := telemetry.Event{At: time.Now(), Run: []rollout.RunName{"", "one"}[n%2], Key: fmt.Sprint("group/", n),
				Body: telemetry.GroupDropped{Seq: rollout.GroupSeq(n), Code: "stale"}}
			written[e.ID()] = true
			emitter.Emit(e)
		}
	}()
	for range 2 {
		leader := k.leader()
		leader.kill()
		began := time.Now()
		k.until("another server delivers", func(s telemetry.SinkStatus, _ string) bool {
			return s.State == telemetry.SinkOK && !strings.Contains(s.Shipper, fmt.Sprintf("/%d/", leader.cmd.Process.Pid))
		})
		t.Logf("another server delivers after %v", time.Since(began).Round(100*time.Millisecond))
		leader.start()
	}
	k.redis.kill()
	time.Sleep(time.Second)
	k.redis.start()
	k.leader()

	if err := k.axiom.Switch("403", true); err != nil {
		t.Fatal(err)
	}
	k.until("a refused token is seen", func(s telemetry.SinkStatus, text string) bool {
		return s.State == telemetry.SinkDegraded && strings.Contains(s.Reason, "403") &&
			strings.Contains(s.Advice, "AXIOM_TOKEN") && strings.Contains(text, "events are not delivered to axiom (degraded)")
	})
	if err := k.axiom.Switch("403", false); err != nil {
		t.Fatal(err)
	}
	for _, c := range k.servers { // a fresh one asks at once, and not in a minute
		c.kill()
		c.start()
	}
	k.leader()
	close(stop)
	<-stopped
	emitter.Close()
	if s := emitter.Stats(); s.Lost() > 0 {
		t.Errorf("the emitter lost %d", s.Lost())
	}
	sink := k.until("all is delivered", func(s telemetry.SinkStatus, _ string) bool {
		return s.State == telemetry.SinkOK && s.Backlog == 0 && s.Delivered+s.DeadLettered >= int64(len(written))
	})
	arrived := map[string]bool{}
	for _, e := range k.axiom.Events() {
		arrived[fmt.Sprint(e["event_id"])] = true
	}
	letters, err := delivery.New(rdb, "millrace", emitter).DeadLetters(context.Background(), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	dead := map[string]bool{}
	for _, l := range letters {
		dead[l.Event] = true
		if l.Reason != "no good" || arrived[l.Event] {
			t.Errorf("dead letter %s: %s; arrived: %t", l.Event, l.Reason, arrived[l.Event])
		}
	}
	for id := range written {
		if !arrived[id] && !dead[id] {
			t.Errorf("%s is nowhere", id)
		}
	}
	if len(letters) != len(dead) || sink.DeadLettered != int64(len(dead)) || sink.LostFacts+sink.LostSamples > 0 {
		t.Errorf("%d dead letters of %d events; %+v", len(letters), len(dead), sink)
	}
	t.Logf("%d facts written, %d of all kinds arrived, %d are dead letters; %+v", len(written), len(arrived), len(dead),
		sink)
}
