package axiom

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	client "github.com/axiomhq/axiom-go/axiom"

	"github.com/millrace/millrace/internal/retry"
)

// deliver sends lines until Axiom has answered for each of them, and returns those that it had not when ctx was done.
func (s *Shipper) deliver(ctx context.Context, lines []line) (rest []line) {
	parts := [][]line{lines}
	if len(lines) == 0 {
		return nil
	}
	for try := 0; len(parts) > 0; try++ {
		part := parts[len(parts)-1]
		if ctx.Err() != nil {
			break
		}
		o := s.send(ctx, part)
		if o.err != nil && ctx.Err() != nil {
			break // the interruption says nothing about Axiom
		}
		r := react(o, try, time.Now(), s.cfg.Jitter())
		s.note(o, r)
		switch r.act {
		case accounted, refused:
			parts, try = parts[:len(parts)-1], -1
		case split:
			half := len(part) / 2
			parts, try = append(parts[:len(parts)-1], part[half:], part[:half]), -1
		case again, park:
			_ = retry.Pause(ctx, r.pause) // the loop sees that ctx is done
		}
	}
	for i := len(parts) - 1; i >= 0; i-- { // the last part is the next, and the oldest
		rest = append(rest, parts[i]...)
	}
	return rest
}

// send sends one part as compressed NDJSON.
func (s *Shipper) send(ctx context.Context, part []line) outcome {
	var text bytes.Buffer
	for _, l := range part {
		text.Write(l)
		text.WriteByte('\n')
	}
	body := bytes.NewReader(s.zstd.EncodeAll(text.Bytes(), nil))
	s.wire.status = 0
	status, err := s.client.Datasets.Ingest(ctx, s.cfg.Dataset, body, client.NDJSON, client.Zstd)
	o := outcome{events: len(part), status: s.wire.status, err: err}
	if err != nil {
		return o
	}
	o.ingested, o.failed = int64(status.Ingested), int64(status.Failed)
	if len(status.Failures) > 0 {
		f := status.Failures[0]
		o.failure = fmt.Sprintf("event of %s: %s", f.Timestamp.Format(time.RFC3339Nano), f.Error)
	}
	return o
}

// note keeps what an operator should know of an outcome.
func (s *Shipper) note(o outcome, r reaction) {
	s.count(func(st *Stats) {
		if o.err != nil {
			st.LastError = o.err.Error()
		}
		switch r.act {
		case park:
			st.Degraded = fmt.Sprintf("Axiom refuses dataset %s: %v; check AXIOM_TOKEN and the dataset's name",
				s.cfg.Dataset, o.err)
		case accounted:
			st.Degraded = ""
			st.Ingested += o.ingested
			st.Rejected += o.failed
			if o.failure != "" {
				st.LastError = o.failure
			}
		case refused:
			st.Rejected++
		}
	})
}

// wire notes the status of the last answer, which the client library loses when it cannot read the answer's body.
// One request is under way at a time.
type wire struct {
	next   http.RoundTripper
	status int
}

// RoundTrip passes the request on.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(r)
	if err == nil {
		w.status = resp.StatusCode
	}
	return resp, err
}
