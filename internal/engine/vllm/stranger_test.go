package vllm

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// TestErrorsOfStrangersAreNotQuoted: an address may be anybody's, and what is answered there is nobody's business.
func TestErrorsOfStrangersAreNotQuoted(t *testing.T) {
	t.Parallel()
	const secret = "balance: 1,000,000"
	bodies := map[string]string{
		"a page":            "<html>" + secret,
		"another API":       `{"error":"` + secret + `"}`,
		"a framework":       `{"detail":"` + secret + `"}`,
		"in vLLM's shape":   `{"error":{"message":"` + secret + `","type":"X","code":%d}}`,
		"not quite vLLM":    `{"error":{"message":"` + secret + `","type":"X","code":"403"}}`,
		"a list of secrets": `["` + secret + `"]`,
	}
	for name, body := range bodies {
		for _, status := range []int{200, 302, 403, 404, 500, 503} {
			for call, do := range controlCalls {
				if call == "load" || call == "unload" || call == "complete" || status == 200 && call == "health" {
					continue // only an address that proved itself is asked for more
				}
				t.Run(fmt.Sprintf("%s/%d/%s", name, status, call), func(t *testing.T) {
					t.Parallel()
					said := body
					if strings.Contains(body, "%d") {
						said = fmt.Sprintf(body, status)
					}
					err := do(t.Context(), engine(t, answering(status, said)))
					if status == 200 && err == nil {
						return // an empty object is an answer
					}
					if err == nil || strings.Contains(err.Error(), "balance") {
						t.Errorf("got %v", err)
					}
					if strings.Contains(Detail(err), "balance") {
						t.Errorf("the log says %v", Detail(err))
					}
				})
			}
		}
	}
}

// TestSilenceIsOneThing: what does not answer does not say why, whatever the reason; the log has it.
func TestSilenceIsOneThing(t *testing.T) {
	t.Parallel()
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hanging.Close()
	resetting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}))
	defer resetting.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.6\r\n")
			_ = conn.Close()
		}
	}()
	said, details := map[string]bool{}, map[string]bool{}
	for _, address := range []string{
		nobody, hanging.URL, resetting.URL, "http://" + listener.Addr().String(), "http://no-such-host.invalid",
	} {
		timeout := time.Minute
		if address == hanging.URL {
			timeout = time.Second
		}
		c, err := New(Config{BaseURL: address, ControlTimeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Health(t.Context())
		wantFailure(t, err, "retryable", rollout.CodeEngineGone)
		said[err.Error()] = true
		details[Detail(err)] = true
		if strings.Contains(err.Error(), "SSH") {
			t.Errorf("quotes what it heard: %v", err)
		}
	}
	if len(said) != 1 || len(details) < 5 {
		t.Errorf("said %v, with the details %v; want the same of all, and details of each", said, details)
	}
}

// TestModelsAreBounded: an engine that lists more than any serves is refused, without reading it to the end.
func TestModelsAreBounded(t *testing.T) {
	t.Parallel()
	entry := `{"id":"demo-v3","root":"/a/3","parent":"qwen"}`
	for name, body := range map[string]string{
		"too many adapters":  `{"data":` + list(entry, 1025) + `}`,
		"too many bytes":     `{"data":[],"more":"` + strings.Repeat("x", 3<<20) + `"}`,
		"an endless nesting": `{"data":` + strings.Repeat("[", 50_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := engine(t, answering(200, body)).Models(t.Context()); err == nil || len(err.Error()) > 300 {
				t.Errorf("got %v", err)
			}
		})
	}
	models, err := engine(t, answering(200, `{"data":`+list(entry, 1024)+`}`)).Models(t.Context())
	if err != nil || len(models) != 1024 {
		t.Errorf("%d models, %v", len(models), err)
	}
}

// TestNamesNobodyAskedForAreLeftOut: control characters and endless names go no further than the client.
func TestNamesNobodyAskedForAreLeftOut(t *testing.T) {
	t.Parallel()
	models, err := engine(t, answering(200, `{"data":[{"id":"qwen","root":"/models/qwen"},{"id":"\u001b[31mred"},{"id":""},
		{"id":"`+strings.Repeat("x", 10_000)+`"},{"id":"a","root":"/a\u0000b"},{"id":"b","max_model_len":-1},{"id":"c","parent":"d\ne"}]}`)).Models(t.Context())
	if err != nil || len(models) != 1 || models[0].ID != "qwen" {
		t.Errorf("got %+v, %v", models, err)
	}
	version, err := engine(t,
		answering(200, `{"version":"0.28\u001b[2J`+strings.Repeat("9", 10_000)+`"}`)).Version(t.Context())
	if err != nil || len(version) > 70 || strings.ContainsRune(version, '\x1b') {
		t.Errorf("version %q, %v", version, err)
	}
}

// TestMetricsTakeNoMemory: however many names and labels an engine's page has, next to nothing of it is held. Not
// parallel: it counts all allocations of the process.
func TestMetricsTakeNoMemory(t *testing.T) {
	var page strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&page, "vllm:name_%d{engine=\"0\",a=\"%d\"} %d\n", i, i, i)
	}
	page.WriteString("vllm:num_requests_running{engine=\"0\"} 3\n" + "vllm:x" + strings.Repeat("y", 1<<20) +
		" 1\nvllm:prompt_tokens_total 7\n")
	c, err := New(Config{BaseURL: "http://engine", HTTPClient: &http.Client{Transport: canned(page.String())}})
	if err != nil {
		t.Fatal(err)
	}
	var sample Sample
	took := allocated(func() { sample, err = c.Metrics(context.Background()) })
	if err != nil || sample.Running != 3 || sample.PromptTokens != 7 {
		t.Errorf("got %+v, %v", sample, err)
	}
	if took > 12<<20 { // a name and a value of each line, one after the other
		t.Errorf("reading %d MiB of metrics allocated %d MiB", page.Len()>>20, took>>20)
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestMetricsThatNoEngineHas(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]string{
		"series without end": strings.Repeat("vllm:num_requests_running{engine=\"0\"} 0\n", 10_000),
		"a huge counter":     "vllm:prompt_tokens_total 1e300\n",
		"a huge gauge":       "vllm:num_requests_running 1e9\n",
		"no figures":         "vllm:num_requests_running NaN\nvllm:num_requests_waiting -1\nvllm:prompt_tokens_total +Inf\n",
		"bytes without end":  strings.Repeat("# nothing\n", 2<<20),
		"unclosed labels":    "vllm:num_requests_running{engine=\"0\" 1\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := engine(t, answering(200, page)).Metrics(t.Context())
			wantFailure(t, err, "retryable", rollout.CodeBadAnswer)
		})
	}
}

func TestMetricsLabels(t *testing.T) {
	t.Parallel()
	s, err := engine(t, answering(200, `# TYPE vllm:lora_requests_info gauge
vllm:lora_requests_info{max_lora="4",running_lora_adapters="a\"}, b",waiting_lora_adapters=""} 1.7e9
vllm:lora_requests_info{running_lora_adapters="max_lora=\"9\"",max_lora="4",} 1.8e9
vllm:request_success_total{engine="0", finished_reason="stop"} 7 1700000000
vllm:request_success_total{engine="1",finished_reason="stop"} 1
vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 2
vllm:gpu_cache_usage_perc 0.25
`)).Metrics(t.Context())
	if err != nil || s.MaxLoRAs != 4 || s.Finished["stop"] != 8 || s.Deferred != 2 || s.KVUsage != 0.25 {
		t.Errorf("got %+v, %v", s, err)
	}
}
