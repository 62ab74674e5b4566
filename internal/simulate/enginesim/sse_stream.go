package enginesim

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"unicode/utf8"
)

// piece is a stretch of a generation: its tokens from one up to another, and their text.
type piece struct {
	generation *generation
	from, to   int
	text       string
	ends       bool // it is the generation's last
}

func (p piece) finishReason() *string {
	if !p.ends {
		return nil
	}
	reason := p.generation.finishReason()
	return &reason
}

func (p piece) stopReason() any {
	if !p.ends || p.generation.aborted {
		return nil
	}
	return p.generation.Stopped
}

// view renders a call in the shape of one route.
type view interface {
	whole(c *call) any // the answer in one piece
	chunk(p piece) any // an event of a stream
	last(u *usage) any // the event with the usage of the whole stream
}

// stream runs a call and sends each token as it comes, as server-sent events.
func (e *Engine) stream(w http.ResponseWriter, r *http.Request, j *job, c *call, v view, options *streamOptions) {
	if err := e.loop.submit(r.Context(), c); err != nil {
		e.giveUp(w, err)
		return
	}
	events := &eventWriter{w: w, flush: http.NewResponseController(w)}
	sent := make([]progress, len(c.generations))
	for open := len(c.generations); open > 0; {
		select {
		case u := <-c.updates:
			if p, ok := sent[u.generation.index].advance(u); ok {
				events.send(v.chunk(p))
			}
			if u.ended {
				open--
			}
		case <-r.Context().Done():
			e.loop.cancel(c)
			return
		}
	}
	<-c.done
	if err := c.failed; err != nil {
		e.breakOff(events, err)
		return
	}
	if options != nil && options.IncludeUsage {
		events.send(v.last(e.usage(j, c)))
	}
	events.done()
}

// breakOff ends a stream that has begun: an error can only be another event.
func (e *Engine) breakOff(events *eventWriter, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	events.send(errorBody(err))
	events.done()
}

// progress is how much of a generation has been sent.
type progress struct{ tokens, bytes int }

// advance cuts the piece that an update adds. A character whose bytes are not all there yet is
// held back; ok is false when there is nothing to send.
func (s *progress) advance(u update) (p piece, ok bool) {
	g := u.generation
	if !u.ended && u.tokens >= len(g.Tokens) {
		return piece{}, false // the last token comes with the end, which follows at once
	}
	text := g.textTo(u.tokens)
	if !u.ended {
		text = text[:wholeRunes(text)]
	}
	p = piece{g, s.tokens, u.tokens, text[min(s.bytes, len(text)):], u.ended}
	s.tokens, s.bytes = u.tokens, max(s.bytes, len(text))
	return p, u.ended || p.to > p.from
}

// wholeRunes is the length of text without a character that is cut off at its end.
func wholeRunes(text string) int {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		start := len(text) - back
		if utf8.RuneStart(text[start]) {
			if !utf8.FullRuneInString(text[start:]) {
				return start
			}
			break
		}
	}
	return len(text)
}

// eventWriter writes server-sent events. Write errors mean that the client left, which the
// request's context tells.
type eventWriter struct {
	w       http.ResponseWriter
	flush   *http.ResponseController
	started bool
}

func (s *eventWriter) send(event any) {
	raw, err := json.Marshal(event)
	if err != nil {
		raw, _ = json.Marshal(errorBody(err))
	}
	s.line(raw)
}

func (s *eventWriter) done() { s.line([]byte("[DONE]")) }

func (s *eventWriter) line(data []byte) {
	if !s.started {
		s.started = true
		s.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	_, _ = s.w.Write(append(append([]byte("data: "), data...), '\n', '\n'))
	_ = s.flush.Flush()
}
