package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// liveUpdates tells browsers that what they look at has changed; they then ask for the page anew. One look at the
// stores serves all of them, and none is made while nobody watches. What a browser has not read yet is one notice,
// however much has changed: none costs more than a few bytes, and whoever does not read is let go.
type liveUpdates struct {
	sample func(context.Context) (map[string]string, error)
	log    *slog.Logger

	mu       sync.Mutex
	watchers map[*watcher]struct{}
	wake     chan struct{} // somebody watches
	ended    chan struct{} // closed when no stream goes on
}

// watcher is one browser that follows a topic.
type watcher struct {
	topic   string
	changed chan struct{} // holds one notice at most
}

const (
	watchersAtOnce = 512 // streams, in this server
	lookEvery      = 2 * time.Second
	lookTimeout    = 5 * time.Second
	beatEvery      = 15 * time.Second
	readPatience   = 10 * time.Second // with a browser that does not read
)

func newLiveUpdates(sample func(context.Context) (map[string]string, error), log *slog.Logger) *liveUpdates {
	return &liveUpdates{sample: sample, log: log, watchers: map[*watcher]struct{}{}, wake: make(chan struct{}, 1),
		ended: make(chan struct{})}
}

// run looks for changes while somebody watches, until ctx is done.
func (l *liveUpdates) run(ctx context.Context) {
	defer close(l.ended)
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var was map[string]string
	for {
		if l.count() == 0 {
			was = nil
			select {
			case <-l.wake:
			case <-ctx.Done():
				return
			}
		}
		was = l.look(ctx, was)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// look tells those whose topic is not as it was.
func (l *liveUpdates) look(ctx context.Context, was map[string]string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	is, err := l.sample(ctx)
	if err != nil {
		if ctx.Err() == nil {
			l.log.Warn("look for what the page follows", "error", err)
		}
		return was
	}
	if was == nil {
		return is
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.watchers {
		if was[one.topic] == is[one.topic] {
			continue
		}
		select {
		case one.changed <- struct{}{}:
		default: // it has a notice that it has not read
		}
	}
	return is
}

func (l *liveUpdates) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.watchers)
}

// join adds a watcher, if there is room.
func (l *liveUpdates) join(topic string) (one *watcher, leave func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watchers) >= watchersAtOnce {
		return nil, nil, false
	}
	one = &watcher{topic: topic, changed: make(chan struct{}, 1)}
	one.changed <- struct{}{} // what has changed since its page was made, or while it had no stream, is not known
	l.watchers[one] = struct{}{}
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return one, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, one)
	}, true
}

// topicPath is what the API must let a caller see who follows a topic.
func topicPath(topic string) string {
	kind, name, _ := strings.Cut(topic, " ")
	switch kind {
	case "run":
		return "/v1/runs/" + url.PathEscape(name) + "/waits"
	case "engine":
		return "/v1/engines/" + url.PathEscape(name)
	case "fleet":
		return "/v1/engines"
	}
	return "/v1/status"
}

// follow streams a notice whenever the topic has changed.
func (s *Site) follow(w http.ResponseWriter, r *http.Request) {
	v, ok := s.visit(w, r)
	if !ok {
		return
	}
	topic := r.URL.Query().Get("of")
	if err := v.api.get(r.Context(), topicPath(topic), nil); err != nil {
		s.sorry(w, v, err)
		return
	}
	one, leave, ok := s.live.join(topic)
	if !ok {
		w.Header().Set("Retry-After", "30")
		s.problemPage(w, v, http.StatusServiceUnavailable, "too many browsers follow this server; reload the page by hand")
		return
	}
	defer leave()
	secure(w.Header())
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	stream := noticeStream{w, http.NewResponseController(w)}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	err := stream.send("retry: 3000\n\n")
	for n := 1; err == nil; {
		select {
		case <-one.changed:
			err = stream.send(fmt.Sprintf("event: changed\ndata: %d\n\n", n))
			n++
		case <-beat.C:
			err = stream.send(": alive\n\n")
		case <-s.live.ended:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// noticeStream writes each notice with a deadline of its own.
type noticeStream struct {
	w          http.ResponseWriter
	connection *http.ResponseController
}

func (n noticeStream) send(text string) error {
	_ = n.connection.SetWriteDeadline(time.Now().Add(readPatience)) // none in some tests
	if _, err := n.w.Write([]byte(text)); err != nil {
		return err
	}
	return n.connection.Flush()
}
