package axiomtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"time"
)

// Fault answers one request otherwise than it should be; done reports whether it has answered at all. A fault that
// returns false lets the request go on.
type Fault func(w http.ResponseWriter, r *http.Request) (done bool)

// Fail makes the next requests to ingest meet these faults, one each, in order.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// Status answers with a status and a JSON message.
func Status(status int, message string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, status, "%s", message)
		return true
	}
}

// Text answers with a status and plain text, as a proxy does.
func Text(status int, text string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, text, status)
		return true
	}
}

// Garbled answers with a status and JSON that breaks off.
func Garbled(status int) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"ingested":`))
		return true
	}
}

// Limited answers 429, or 430 for the month's quota, with the moment at which the limit ends, but without its scope:
// axiom-go then drops the other headers.
func Limited(status int, reset time.Time) Fault {
	prefix := "X-RateLimit-"
	if status != http.StatusTooManyRequests {
		prefix = "X-IngestLimit-"
	}
	return LimitedWith(status, headers(prefix, "100", "0", strconv.FormatInt(reset.Unix(), 10)))
}

func headers(prefix, limit, remaining, reset string) map[string]string {
	return map[string]string{prefix + "Limit": limit, prefix + "Remaining": remaining, prefix + "Reset": reset}
}

// LimitedWith answers with a limit's status, a JSON message and these headers alone.
func LimitedWith(status int, headers map[string]string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		refuse(w, status, "limit exceeded")
		return true
	}
}

// Hang answers nothing for d, or until the client goes, and then lets the request go on.
func Hang(d time.Duration) Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-time.After(d):
			return false
		case <-r.Context().Done():
			return true
		}
	}
}

// LoseAnswer ingests the events and then answers as a broken proxy would: the client cannot know.
func (s *Server) LoseAnswer() Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		s.ingest(httptest.NewRecorder(), r)
		http.Error(w, "bad gateway", http.StatusBadGateway)
		return true
	}
}

// Short ingests the events and accounts for some of them only.
func (s *Server) Short() Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		inner := httptest.NewRecorder()
		s.ingest(inner, r)
		var status ingestStatus
		if inner.Code != http.StatusOK || json.Unmarshal(inner.Body.Bytes(), &status) != nil {
			return false
		}
		status.Ingested /= 2
		answer(w, http.StatusOK, status)
		return true
	}
}

// Refuse makes the transport report that nobody listens; over HTTP, the connection is cut.
func Refuse() Fault {
	return func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }
}

// CutInBody ingests the events and cuts the connection in the middle of the answer.
func (s *Server) CutInBody() Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		s.ingest(httptest.NewRecorder(), r)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "200")
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte(`{"ingested": 1`))
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	}
}

// FaultSwitch is a fault that lasts until it is switched off.
type FaultSwitch struct {
	Name string `json:"name"`
	Text string `json:"text"` // what it does
	On   bool   `json:"on"`
	Hits int    `json:"hits"` // requests that met it
	// all: every call of the API meets it; else those to ingest.
	all   bool
	fault func(s *Server) Fault
}

// switches are the faults that can be switched on, in the order of the page.
var switches = []FaultSwitch{
	{Name: "refuse", Text: "cut every connection, as if nobody listened", all: true,
		fault: func(*Server) Fault { return Refuse() }},
	{Name: "hang", Text: "answer nothing for ten minutes", fault: func(*Server) Fault { return Hang(10 * time.Minute) }},
	{Name: "slow", Text: "answer after two seconds", fault: func(*Server) Fault { return Hang(2 * time.Second) }},
	{Name: "reset-mid-body", Text: "take the events, and cut the connection within the answer",
		fault: func(s *Server) Fault { return s.CutInBody() }},
	{Name: "lost-answer", Text: "take the events, and answer 502", fault: func(s *Server) Fault { return s.LoseAnswer() }},
	{Name: "short-answer", Text: "take the events, and account for half of them",
		fault: func(s *Server) Fault { return s.Short() }},
	{Name: "500", Text: "500 with JSON", fault: func(*Server) Fault { return Status(500, "internal error") }},
	{Name: "503-text", Text: "503 with plain text, as a proxy says it", all: true,
		fault: func(*Server) Fault { return Text(503, "service unavailable") }},
	{Name: "429", Text: "rate limit for half a minute, with every header", fault: func(*Server) Fault {
		h := headers("X-RateLimit-", "1000", "0", strconv.FormatInt(time.Now().Add(30*time.Second).Unix(), 10))
		h["X-RateLimit-Scope"] = "user"
		return LimitedWith(429, h)
	}},
	{Name: "429-no-scope", Text: "rate limit for half a minute, without X-RateLimit-Scope", fault: func(*Server) Fault {
		return Limited(429, time.Now().Add(30*time.Second))
	}},
	{Name: "429-text", Text: "rate limit in plain text, without headers",
		fault: func(*Server) Fault { return Text(429, "slow down") }},
	{Name: "430", Text: "the month's quota is used up", fault: func(*Server) Fault {
		return Limited(430, time.Now().Add(20*24*time.Hour))
	}},
	{Name: "413", Text: "refuse requests of more than ten events as too large", fault: tooLarge},
	{Name: "400", Text: "refuse every request as malformed",
		fault: func(*Server) Fault { return Status(400, "bad request") }},
	{Name: "401", Text: "the token is not valid any more", all: true,
		fault: func(*Server) Fault { return Status(401, "unauthorized") }},
	{Name: "403", Text: "the token may do nothing", all: true,
		fault: func(*Server) Fault { return Status(403, "forbidden") }},
	{Name: "404", Text: "the dataset is gone", fault: func(*Server) Fault { return Status(404, "dataset not found") }},
	{Name: "poison", Text: "refuse every tenth event, in a successful answer"},
	{Name: "field-limit", Text: "allow no field that is not there yet"},
}

// tooLarge answers 413 to requests of more than ten events.
func tooLarge(s *Server) Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		events, again, err := peek(r)
		r.Body = again
		if err != nil || len(events) <= 10 {
			return false
		}
		refuse(w, http.StatusRequestEntityTooLarge, "request entity too large")
		return true
	}
}

// Faults are those that can be switched on, with their state.
func (s *Server) Faults() []FaultSwitch {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(switches)
	for i := range out {
		out[i].On, out[i].Hits = s.switches[out[i].Name], s.hits[out[i].Name]
	}
	return out
}

// Switch switches a fault on or off.
func (s *Server) Switch(name string, on bool) error {
	if !slices.ContainsFunc(switches, func(f FaultSwitch) bool { return f.Name == name }) {
		return fmt.Errorf("there is no fault %q; there are %s", name, slices.Sorted(maps.Keys(switchNames())))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.switches == nil {
		s.switches, s.hits = map[string]bool{}, map[string]int{}
	}
	s.switches[name] = on
	return nil
}

func switchNames() map[string]bool {
	names := map[string]bool{}
	for _, f := range switches {
		names[f.Name] = true
	}
	return names
}

// everywhere reports whether a fault is on that every call meets.
func (s *Server) everywhere() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(switches, func(f FaultSwitch) bool { return f.all && s.switches[f.Name] })
}

// switched reports whether a fault is on, and counts that it was met.
func (s *Server) switched(name string) bool {
	if !s.switches[name] {
		return false
	}
	s.hits[name]++
	return true
}

// arrive counts a request, and takes the fault that it meets: the next of those that were scripted, or the first that
// is switched on.
func (s *Server) arrive(ingest bool) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ingest {
		s.requests++
		if len(s.faults) > 0 {
			fault := s.faults[0]
			s.faults = s.faults[1:]
			return fault
		}
	}
	for _, f := range switches {
		if f.fault != nil && (ingest || f.all) && s.switched(f.Name) {
			return f.fault(s)
		}
	}
	return nil
}
