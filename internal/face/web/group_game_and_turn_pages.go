package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/web/pageview"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/diplomacyview"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// mostGamesBeside is how many games of a group stand side by side with their advantages.
const mostGamesBeside = 64

// refOf is the game that a path names.
func refOf(r *http.Request) (rollout.EpisodeRef, error) {
	run := rollout.RunName(r.PathValue("run"))
	seq, fault := strconv.ParseInt(r.PathValue("group"), 10, 64)
	sample := 0
	if text := r.PathValue("sample"); text != "" && fault == nil {
		sample, fault = strconv.Atoi(text)
	}
	if fault != nil || seq < 0 || sample < 0 || run.ValidateID() != nil {
		return rollout.EpisodeRef{}, &apiclient.Problem{Status: http.StatusNotFound,
			Detail: "groups and games are named by numbers"}
	}
	return rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: run, Seq: rollout.GroupSeq(seq)}, Sample: sample}, nil
}

// missing reports whether a failure is that something is not there, and says so.
func missing(err error) (string, bool) {
	var p *apiclient.Problem
	if errors.As(err, &p) && (p.Status == http.StatusNotFound || p.Status == http.StatusNotImplemented ||
		p.Status == http.StatusConflict) {
		return p.Detail, true
	}
	return "", false
}

func gamesOfGroup(ctx context.Context, v *visit, ref rollout.GroupRef) ([]gamelist.Game, error) {
	var page gamelist.Page
	err := v.api.get(ctx, fmt.Sprintf("%s/games?group=%d&limit=%d", apiclient.RunPath(ref.Run), ref.Seq, 500), &page)
	return page.Games, err
}

func crumbsOf(v *visit, run rollout.RunName, more ...crumb) []crumb {
	name := string(run.Plain())
	return append([]crumb{{"runs", v.base}, {name, v.base + "runs/" + name}}, more...)
}

func (s *Site) group(ctx context.Context, v *visit) (content, error) {
	ref, err := refOf(v.r)
	if err != nil {
		return content{}, err
	}
	games, err := gamesOfGroup(ctx, v, ref.GroupRef)
	if err != nil {
		return content{}, err
	}
	if len(games) == 0 {
		return content{}, &apiclient.Problem{Status: http.StatusNotFound, Detail: fmt.Sprintf(
			"nothing is known of games of group %d: it has not begun, or its games are too old", ref.Seq)}
	}
	turns := map[int]gamelist.Turns{}
	for _, g := range games[:min(len(games), mostGamesBeside)] {
		if !g.Kept || g.State != gamelist.Finished {
			continue
		}
		var of gamelist.Turns
		one := rollout.EpisodeRef{GroupRef: ref.GroupRef, Sample: g.Sample}
		if err := v.api.get(ctx, apiclient.GamePath(one)+"/turns", &of); err == nil {
			turns[g.Sample] = of
		} else if _, gone := missing(err); !gone {
			return content{}, err
		}
	}
	view := pageview.GroupOf(ref.Run, ref.Seq, games, turns)
	if !view.Kept {
		_, _, err := readGame(ctx, v, ref)
		view.Missing, _ = missing(err)
	}
	return content{template: "group", title: fmt.Sprintf("group %d", ref.Seq), crumbs: crumbsOf(v, ref.Run),
		data: view}, nil
}

func (s *Site) game(ctx context.Context, v *visit) (content, error) {
	ref, err := refOf(v.r)
	if err != nil {
		return content{}, err
	}
	document, saved, err := readGame(ctx, v, ref)
	why, gone := missing(err)
	if err != nil && !gone {
		return content{}, err
	}
	games, err := gamesOfGroup(ctx, v, ref.GroupRef)
	if _, gone := missing(err); err != nil && !gone {
		return content{}, err
	}
	var info *gamelist.Game
	if i := slices.IndexFunc(games, func(g gamelist.Game) bool { return g.Sample == ref.Sample }); i >= 0 {
		info = &games[i]
	}
	if info == nil && gone {
		return content{}, &apiclient.Problem{Status: http.StatusNotFound, Detail: why}
	}
	var turns gamelist.Turns
	err = v.api.get(ctx, apiclient.GamePath(ref)+"/turns", &turns)
	noTurns, gone := missing(err)
	if err != nil && !gone {
		return content{}, err
	}
	view := pageview.GameOf(ref, info, saved, document, turns, v.r.URL.Query().Get("phase"))
	if view.Missing = why; why == "" {
		view.Missing = noTurns
	}
	status, err := statusOfRun(ctx, v, ref.Run)
	if err != nil {
		return content{}, err
	}
	view.Workflow = s.deps.Workflows.Group(rollout.GroupRef{Run: status.Spec.Name, Seq: ref.Seq})
	if info != nil && len(info.Failures) > 0 {
		history, fleet := s.deps.History.Of(ctx, status, historyFresh, patience)
		if !v.grant.CoversAll() { // what all runs share is not shown to everybody
			fleet = runhistory.Facts{}
		}
		view.AddFailures(info.Failures, history.Facts.Happenings, fleet.Happenings)
	}
	return content{template: "game", title: fmt.Sprintf("game %d/%d", ref.Seq, ref.Sample), data: view,
		crumbs: crumbsOf(v, ref.Run, crumb{fmt.Sprintf("group %d", ref.Seq), fmt.Sprintf("../../groups/%d", ref.Seq)})}, nil
}

// statusOfRun is a run as the stores call it.
func statusOfRun(ctx context.Context, v *visit, run rollout.RunName) (runstatus.RunStatus, error) {
	var status runstatus.RunStatus
	err := v.api.get(ctx, apiclient.RunPath(run), &status)
	status.Spec.Name = idOf(status)
	return status, err
}

// readGame reads a game as its environment writes it; saved is nil if that is no Diplomacy.
func readGame(ctx context.Context, v *visit, ref rollout.EpisodeRef) (string, *diplomacy.SavedGame, error) {
	var raw json.RawMessage
	if err := v.api.get(ctx, apiclient.GamePath(ref), &raw); err != nil {
		return "", nil, err
	}
	var saved diplomacy.SavedGame
	if json.Unmarshal(raw, &saved) == nil && saved.Map != "" && len(saved.Phases) > 0 {
		return "", &saved, nil
	}
	var text bytes.Buffer
	if json.Indent(&text, raw, "", "  ") != nil {
		return string(raw), nil, nil
	}
	return text.String(), nil, nil
}

// gameMap is the map of one phase as a picture.
func gameMap(ctx context.Context, v *visit) (made, error) {
	ref, err := refOf(v.r)
	if err != nil {
		return made{}, err
	}
	_, saved, err := readGame(ctx, v, ref)
	if err != nil {
		return made{}, err
	}
	phase, err := strconv.Atoi(v.r.URL.Query().Get("phase"))
	if err != nil || saved == nil || phase < 0 || phase >= len(saved.Phases) {
		return made{}, &apiclient.Problem{Status: http.StatusNotFound, Detail: "there is no map of that phase"}
	}
	var picture bytes.Buffer
	if err := diplomacyview.SVG(&picture, saved, phase); err != nil {
		return made{}, &apiclient.Problem{Status: http.StatusNotFound, Detail: err.Error()}
	}
	return newMade("image/svg+xml", picture.Bytes()), nil
}

func (s *Site) turn(ctx context.Context, v *visit) (content, error) {
	ref, err := refOf(v.r)
	if err != nil {
		return content{}, err
	}
	number, err := strconv.Atoi(v.r.PathValue("turn"))
	if err != nil {
		return content{}, &apiclient.Problem{Status: http.StatusNotFound, Detail: "turns are named by numbers"}
	}
	var turn gamelist.Turn
	if err := v.api.get(ctx, fmt.Sprintf("%s/turns/%d", apiclient.GamePath(ref), number), &turn); err != nil {
		return content{}, err
	}
	_, saved, err := readGame(ctx, v, ref)
	if _, gone := missing(err); err != nil && !gone {
		return content{}, err
	}
	status, err := statusOfRun(ctx, v, ref.Run)
	if err != nil {
		return content{}, err
	}
	view := pageview.TurnOf(ref, turn)
	games, err := gamesOfGroup(ctx, v, ref.GroupRef)
	if _, gone := missing(err); err != nil && !gone {
		return content{}, err
	}
	for _, g := range games {
		if g.Sample == ref.Sample {
			view.AddGame(g)
		}
	}
	view.Constraint = pageview.ConstraintOf(status.Spec.Environment, saved, turn.Phase, turn.Agent)
	return content{template: "turn", title: fmt.Sprintf("turn %d", number), data: view,
		crumbs: crumbsOf(v, ref.Run, crumb{fmt.Sprintf("group %d", ref.Seq), fmt.Sprintf("%sruns/%s/groups/%d", v.base,
			ref.Run.Plain(), ref.Seq)}, crumb{fmt.Sprintf("game %d/%d", ref.Seq, ref.Sample), fmt.Sprintf("../../%d",
			ref.Sample)})}, nil
}
