package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// action is one change that a page offers. The page first shows its effect. Then the API makes the change in the
// visitor's name, so that permissions and audit are the same as from the command line.
type action struct {
	Title, Button string
	Says          []string // what will happen
	Grave         bool     // it cannot be taken back
	Ask           bool     // the form's answer is first shown as what will happen
	Fields        []field
	back          string // the page to go to afterwards, from the root
	method, path  string
	body          any
}

// crumbs lead back to the page that offered the action.
func (a action) crumbs(v *visit) []crumb {
	if strings.HasPrefix(a.back, "engines") {
		return []crumb{{"engines", v.base + "#engines"}}
	}
	return []crumb{{"runs", v.base}}
}

// field is one input of a form.
type field struct{ Name, Label, Value, Hint, Kind string }

// changes registers a page that asks for a change, and the change.
func (s *Site) changes(pattern string, of func(context.Context, *visit) (action, error)) {
	s.mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
		if v, ok := s.operator(w, r); ok {
			s.confirm(w, v, of, http.StatusOK, "")
		}
	})
	s.mux.HandleFunc("POST "+pattern, s.guarded(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		v, ok := s.operator(w, r)
		if !ok {
			return
		}
		a, err := of(r.Context(), v)
		if err == nil && (a.Ask || a.path == "") {
			err = &apiclient.Problem{Status: http.StatusUnprocessableEntity, Detail: "fill the form in first"}
		}
		if err == nil {
			err = v.api.do(r.Context(), a.method, a.path, a.body, nil)
		}
		if err != nil {
			status, text := statusOf(err)
			s.confirm(w, v, of, status, text)
			return
		}
		s.kept.ForgetAll()
		redirect(w, v.base+a.back)
	}))
}

// operator lets through who may change something.
func (s *Site) operator(w http.ResponseWriter, r *http.Request) (*visit, bool) {
	v, ok := s.visit(w, r)
	if ok && !v.operates() {
		s.problemPage(w, v, http.StatusForbidden, fmt.Sprintf("this needs the role operator; the token %q has the role %s",
			v.grant.Name, v.grant.Role))
		return nil, false
	}
	return v, ok
}

// confirm shows what a change will do, and why it was refused, if it was.
func (s *Site) confirm(w http.ResponseWriter, v *visit, of func(context.Context, *visit) (action, error), status int,
	refusal string) {
	a, err := of(v.r.Context(), v)
	switch {
	case err != nil && a.Title == "":
		s.sorry(w, v, err)
		return
	case err != nil && refusal == "":
		status, refusal = statusOf(err)
	}
	page, err := s.pages.make(v, content{template: "confirm", title: a.Title, crumbs: a.crumbs(v),
		data: struct {
			action
			Back, Refusal string
		}{a, v.base + a.back, refusal}})
	if err != nil {
		s.sorry(w, v, err)
		return
	}
	write(w, v.r, status, page)
}

func (s *Site) routeActions() {
	for name, of := range map[string]func(*visit, runstatus.RunStatus) (action, error){
		"pause": pauseRun, "resume": resumeRun, "stop": stopRun, "set": setRun,
	} {
		s.changes("/runs/{run}/do/"+name, func(ctx context.Context, v *visit) (action, error) {
			var status runstatus.RunStatus
			path := apiclient.RunPath(rollout.RunName(v.r.PathValue("run")))
			if err := v.api.get(ctx, path, &status); err != nil {
				return action{}, err
			}
			a, err := of(v, status)
			a.back = "runs/" + string(status.Spec.Name)
			if a.path == "" {
				a.method, a.path = http.MethodPatch, path
			}
			return a, err
		})
	}
	for name, of := range map[string]func(*visit, enginestate.Engine) action{
		"drain": drainEngine, "remove": removeEngine, "add": takeBackEngine,
	} {
		s.changes("/engines/{id}/do/"+name, func(ctx context.Context, v *visit) (action, error) {
			var engine enginestate.Engine
			if err := v.api.get(ctx, apiclient.EnginePath(v.r.PathValue("id")), &engine); err != nil {
				return action{}, err
			}
			return of(v, engine), nil
		})
	}
	s.changes("/engines/do/add", addEngine)
}

func pauseRun(_ *visit, status runstatus.RunStatus) (action, error) {
	return action{Title: "Pause " + string(status.Spec.Name), Button: "Pause", body: map[string]any{"paused": true},
		Says: []string{"It launches no more games. Those in play finish, and the trainer may claim what is ready.",
			"The trainer waits once that is used up. Resume goes on where it was."}}, nil
}

func resumeRun(_ *visit, status runstatus.RunStatus) (action, error) {
	return action{Title: "Resume " + string(status.Spec.Name), Button: "Resume", body: map[string]any{"paused": false},
		Says: []string{"It launches games again, up to its buffer's depth."}}, nil
}

func stopRun(v *visit, status runstatus.RunStatus) (action, error) {
	reason := strings.TrimSpace(v.r.PostFormValue("reason"))
	a := action{Title: "Stop " + string(status.Spec.Name), Button: "Stop it for good", Grave: true,
		method: http.MethodPost, path: apiclient.RunPath(status.Spec.Name) + "/stop",
		Says: []string{fmt.Sprintf("The run ends after step %d of %d. Games in play are let go, and the trainer gets no "+
			"batch any more.", status.NextStep, status.Spec.Steps), "A stopped run cannot be resumed; pause it if you want " +
			"to go on later."},
		Fields: []field{{Name: "reason", Label: "Why (kept with the run)", Value: reason, Kind: "text"}}}
	if reason != "" {
		a.body = map[string]string{"reason": reason}
	}
	return a, nil
}

// setRun changes keys of a run's spec: first they are typed, then what they change is shown.
func setRun(v *visit, status runstatus.RunStatus) (action, error) {
	text := strings.TrimSpace(v.r.FormValue("set"))
	a := action{Title: "Change " + string(status.Spec.Name), Button: "Show what will change", Ask: true,
		Fields: []field{{Name: "set", Label: "Changes, such as buffer.depth=4", Value: text, Kind: "text",
			Hint: "May be changed while it runs: " + strings.Join(changeable(), ", ")}}}
	if text == "" {
		return a, nil
	}
	change, err := spec.ParseChange(strings.Fields(text))
	if err != nil {
		return a, &apiclient.Problem{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	}
	after, err := change.Apply(status.Spec)
	if err != nil {
		return a, &apiclient.Problem{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	}
	a.Button, a.body, a.Ask = "Change it", change, false
	a.Fields = []field{{Name: "set", Value: text, Kind: "hidden"}} // what is done is what was shown
	a.Says = []string{change.Describe(status.Spec, after), "Games in play go on as they were begun."}
	return a, nil
}

func changeable() []string {
	var names []string
	for _, key := range spec.Live() {
		names = append(names, key.Path)
	}
	return names
}

func drainEngine(_ *visit, e enginestate.Engine) action {
	return action{Title: "Drain " + string(e.ID), Button: "Drain", back: "engines/" + string(e.ID),
		method: http.MethodPost, path: apiclient.EnginePath(string(e.ID)) + "/drain",
		Says: []string{fmt.Sprintf("It finishes the %.0f requests that it has, gets nothing new, and unloads its adapters.",
			e.Load.Running+e.Load.Waiting), "It stays in the fleet. Taking it back ends that."}}
}

func removeEngine(_ *visit, e enginestate.Engine) action {
	return action{Title: "Remove " + string(e.ID), Button: "Remove", Grave: true, method: http.MethodDelete,
		path: apiclient.EnginePath(string(e.ID)),
		Says: []string{"It finishes what it has, and then leaves the fleet. Add it by its address to have it back."}}
}

func takeBackEngine(_ *visit, e enginestate.Engine) action {
	return action{Title: "Take " + string(e.ID) + " back", Button: "Take it back", back: "engines/" + string(e.ID),
		method: http.MethodPut, path: apiclient.EnginePath(string(e.ID)), body: engineBody{e.URL, e.MaxInFlight},
		Says: []string{"It loads the adapters in use, and gets requests again when it is ready."}}
}

// engineBody is what the API takes of a new engine.
type engineBody struct {
	URL         string `json:"url"`
	MaxInFlight int    `json:"max_in_flight,omitempty"`
}

func addEngine(_ context.Context, v *visit) (action, error) {
	address, id := strings.TrimSpace(v.r.PostFormValue("url")), strings.TrimSpace(v.r.PostFormValue("id"))
	a := action{Title: "Add an engine", Button: "Add it", method: http.MethodPut,
		Says: []string{"The service asks the address for its health and models, loads the adapters in use, and then sends " +
			"requests to it."},
		Fields: []field{{Name: "url", Label: "Address of the vLLM server", Value: address, Kind: "url",
			Hint: "http://host:port, without /v1"}, {Name: "id", Label: "Name", Value: id, Kind: "text",
			Hint: "letters, digits and . _ -; empty: made of the address"}}}
	if address == "" {
		return a, nil
	}
	if id == "" {
		if u, err := url.Parse(address); err == nil {
			id = strings.ReplaceAll(u.Host, ":", "-")
		}
	}
	a.path, a.body, a.back = apiclient.EnginePath(id), engineBody{URL: address}, "engines/"+url.PathEscape(id)
	return a, nil
}
