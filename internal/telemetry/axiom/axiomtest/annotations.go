package axiomtest

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// annotation is a mark on the charts of datasets.
type annotation struct {
	ID          string     `json:"id"`
	Datasets    []string   `json:"datasets"`
	Type        string     `json:"type"`
	Time        time.Time  `json:"time"`
	EndTime     *time.Time `json:"endTime,omitempty"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	URL         string     `json:"url"`
}

var annotationType = regexp.MustCompile(`^[a-z0-9-]+$`)

// check reports what Axiom would refuse. The zero time, which axiom-go sends for a time that was not set, is one of
// them: taken literally, it would put the annotation two thousand years back.
func (a *annotation) check(now time.Time) error {
	switch {
	case len(a.Datasets) == 0:
		return fmt.Errorf("datasets: at least one is required")
	case !annotationType.MatchString(a.Type):
		return fmt.Errorf("type %q: want lowercase letters, digits and dashes", a.Type)
	case !a.Time.IsZero() && a.EndTime != nil && !a.EndTime.IsZero() && a.EndTime.Before(a.Time):
		return fmt.Errorf("endTime is before time")
	}
	if a.Time.IsZero() {
		a.Time = now
	}
	if a.EndTime != nil && a.EndTime.IsZero() {
		return fmt.Errorf("endTime is the year 1: set it, or leave it out")
	}
	return nil
}

// Annotation is one that was made, for tests.
type Annotation = annotation

// Annotations are those that were made, in order.
func (s *Server) Annotations() []Annotation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.annotations)
}

func (s *Server) listAnnotations(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var start, end time.Time
	for name, at := range map[string]*time.Time{"start": &start, "end": &end} {
		if text := q.Get(name); text != "" {
			parsed, err := time.Parse(time.RFC3339, text)
			if err != nil {
				refuse(w, http.StatusBadRequest, "%s: %v", name, err)
				return
			}
			*at = parsed
		}
	}
	var datasets []string
	for _, list := range q["datasets"] {
		datasets = append(datasets, strings.Split(list, ",")...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []annotation{}
	for _, a := range s.annotations {
		shared := func(name string) bool { return slices.Contains(a.Datasets, name) }
		if (len(datasets) == 0 || slices.ContainsFunc(datasets, shared)) && !a.Time.Before(start) &&
			(end.IsZero() || a.Time.Before(end)) {
			list = append(list, a)
		}
	}
	answer(w, http.StatusOK, list)
}

func (s *Server) createAnnotation(w http.ResponseWriter, r *http.Request) {
	var a annotation
	if !readJSON(w, r, &a) {
		return
	}
	if err := a.check(time.Now().UTC()); err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range a.Datasets {
		if s.dataset(name) == nil {
			refuse(w, http.StatusNotFound, "dataset %s not found", name)
			return
		}
	}
	a.ID = s.id("ann_")
	s.annotations = append(s.annotations, a)
	s.changed()
	answer(w, http.StatusCreated, a)
}

// withAnnotation serves a call about one annotation, under the lock.
func (s *Server) withAnnotation(w http.ResponseWriter, r *http.Request, serve func(i int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.annotations, func(a annotation) bool { return a.ID == r.PathValue("id") })
	if i < 0 {
		refuse(w, http.StatusNotFound, "annotation not found")
		return
	}
	serve(i)
}

func (s *Server) getAnnotation(w http.ResponseWriter, r *http.Request) {
	s.withAnnotation(w, r, func(i int) { answer(w, http.StatusOK, s.annotations[i]) })
}

func (s *Server) updateAnnotation(w http.ResponseWriter, r *http.Request) {
	var change annotation
	if !readJSON(w, r, &change) {
		return
	}
	s.withAnnotation(w, r, func(i int) {
		a := &s.annotations[i]
		if !change.Time.IsZero() {
			a.Time = change.Time
		}
		if change.EndTime != nil && !change.EndTime.IsZero() {
			a.EndTime = change.EndTime
		}
		for to, from := range map[*string]string{&a.Type: change.Type, &a.Title: change.Title,
			&a.Description: change.Description, &a.URL: change.URL} {
			if from != "" {
				*to = from
			}
		}
		s.changed()
		answer(w, http.StatusOK, *a)
	})
}

func (s *Server) deleteAnnotation(w http.ResponseWriter, r *http.Request) {
	s.withAnnotation(w, r, func(i int) {
		s.annotations = slices.Delete(s.annotations, i, i+1)
		s.changed()
		w.WriteHeader(http.StatusNoContent)
	})
}
