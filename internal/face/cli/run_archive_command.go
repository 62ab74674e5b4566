package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/archive"
)

func (s *session) archiveCommand() *cobra.Command {
	var to string
	var keep, force bool
	cmd := s.onRun("archive RUN --to FOLDER|FILE.tar.gz", cobra.ExactArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			if keep && force {
				return Usage("--force stops the run to delete it, and --keep does not delete it; use one of them")
			}
			return s.archive(ctx, c, run, to, keep, force)
		})
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "an existing folder, or a file that is not there yet and ends in .tar.gz")
	f.BoolVar(&keep, "keep", false, "do not delete the run; it may go on")
	f.BoolVar(&force, "force", false, "stop the run first if it goes on")
	return cmd
}

func (s *session) archive(ctx context.Context, c Client, run rollout.RunName, to string, keep, force bool) error {
	x := &export{client: c, now: s.now}
	if err := x.look(ctx, run); err != nil {
		return err
	}
	path, err := archivePath(to, x.status.ID)
	if err != nil {
		return err
	}
	if !keep && !x.status.State.Over() {
		if !force {
			return fmt.Errorf("run %s is %s; stop it first, stop it now with --force, or leave it going with --keep",
				run, x.status.State)
		}
		if err := x.stop(ctx); err != nil {
			return err
		}
	}
	m, size, err := x.write(ctx, path)
	if err != nil {
		return err
	}
	s.Say("%s has %d steps, %d events and %d batches of run %s, %s", path, m.Counts.Steps, m.Counts.Events,
		m.Counts.Batches, run, units.Bytes(size))
	if !keep {
		if err := x.unchanged(ctx); err != nil {
			return fmt.Errorf("%w\n  the archive is whole: %s; the run is not deleted", err, path)
		}
		if _, err := c.Call(ctx, http.MethodDelete, apiclient.RunPath(x.status.ID), "", nil); err != nil {
			return fmt.Errorf("%w\n  the archive is whole: %s; delete the run with: millrace run delete %s", err, path, run)
		}
		s.Say("run %s is deleted; what it held is removed within a minute, and its name can be used again", run)
	}
	return s.showValue(struct {
		File    string `json:"file"`
		Bytes   int64  `json:"bytes"`
		Deleted bool   `json:"deleted"`
		archive.Manifest
	}{path, size, !keep, m}, nil)
}

// archivePath is the file that an archive gets: ID.tar.gz in a folder, or the one named.
func archivePath(to string, id rollout.RunName) (string, error) {
	const ending = ".tar.gz"
	if to == "" {
		return "", Usage("where to? name a folder, or a file that ends in %s, with --to", ending)
	}
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, string(id)+ending)
	} else if !strings.HasSuffix(to, ending) {
		return "", Usage("--to %s: it is no folder, and does not end in %s", to, ending)
	}
	return to, archive.Free(to)
}

// export reads a run over the API, page by page, into an archive.
type export struct {
	client Client
	now    func() time.Time
	status runstatus.RunStatus // when the export began
	view   tablerow.Run
	counts archive.Counts
}

// look reads the run. From then on it is called by its id, so that another run that gets the name is not taken for it.
func (x *export) look(ctx context.Context, run rollout.RunName) error {
	v, _, err := x.client.run(ctx, run)
	if err != nil {
		return err
	}
	x.view, x.status = v, v.RunStatus
	return nil
}

func (x *export) stop(ctx context.Context) error {
	reason := map[string]string{"reason": "stopped to be archived"}
	if _, _, err := x.client.change(ctx, x.status.ID, http.MethodPost, "/stop", reason); err != nil {
		return err
	}
	return x.look(ctx, x.status.ID)
}

// unchanged reports what happened to the run since the export began.
func (x *export) unchanged(ctx context.Context) error {
	v, _, err := x.client.run(ctx, x.status.ID)
	if err != nil {
		return err
	}
	was, is := x.view, v
	if is.ID != was.ID || is.State != was.State || is.PolicyVersion != was.PolicyVersion || is.NextStep != was.NextStep ||
		is.Buffer.Claimed != was.Buffer.Claimed || is.Buffer.Completed != was.Buffer.Completed {
		return errors.New("the run has changed while it was archived: a trainer is still at work, or it goes on; archive " +
			"it again when it is over")
	}
	return nil
}

func (x *export) write(ctx context.Context, path string) (m archive.Manifest, size int64, err error) {
	w, err := archive.Create(path)
	if err != nil {
		return m, 0, err
	}
	defer func() {
		if closed := w.Close(); err == nil && !errors.Is(closed, os.ErrClosed) {
			err = closed
		}
	}()
	base := apiclient.RunPath(x.status.ID)
	patient := Client{x.client.Patient()}
	for _, document := range []struct{ name, path string }{{"run.json", base}, {"policies.json", base + "/policies"}} {
		if err := w.Add(document.name, func(to io.Writer) error { return patient.Copy(ctx, document.path, to) }); err != nil {
			return m, 0, err
		}
	}
	last := rollout.Step(-1)
	if err := w.Add("steps.ndjson", func(to io.Writer) (err error) {
		last, err = x.steps(ctx, patient, to)
		return err
	}); err != nil {
		return m, 0, err
	}
	if err := w.Add("events.ndjson", func(to io.Writer) error { return x.events(ctx, patient, base, to) }); err != nil {
		return m, 0, err
	}
	// The batches that are kept are those of the last steps.
	for step := last; step >= 0; step-- {
		at := fmt.Sprintf("%s/steps/%d/batch", base, step)
		err := w.Add(fmt.Sprintf("batches/%d.json", step), func(to io.Writer) error { return patient.Copy(ctx, at, to) })
		if refusal(err) == rollout.NotRetained {
			break
		}
		if err != nil {
			return m, 0, err
		}
		x.counts.Batches++
	}
	status, err := json.Marshal(x.status)
	if err != nil {
		return m, 0, fmt.Errorf("write the manifest: %w", err)
	}
	m = archive.Manifest{
		Format: archive.Format, Run: string(x.status.Spec.Name), ID: string(x.status.ID), ArchivedAt: x.now().UTC(),
		Status: status, Counts: x.counts,
	}
	size, err = w.Finish(m)
	return m, size, err
}

// refusal is the code of a problem; empty for every other error.
func refusal(err error) rollout.RefusalCode {
	var p *apiclient.Problem
	if !errors.As(err, &p) {
		return ""
	}
	return p.Code()
}

// steps writes the records of steps, a line for each, and answers the last step.
func (x *export) steps(ctx context.Context, c Client, to io.Writer) (last rollout.Step, err error) {
	records, err := recordedSteps[json.RawMessage](ctx, c, x.status.ID, 0)
	if err != nil || len(records) == 0 {
		return -1, err
	}
	x.counts.Steps = len(records)
	var record struct {
		Step rollout.Step `json:"step"`
	}
	if err := json.Unmarshal(records[len(records)-1], &record); err != nil {
		return -1, fmt.Errorf("read a step record: %w", err)
	}
	return record.Step, writeLines(to, records)
}

// events writes the run's events, facts and samples, a line for each.
func (x *export) events(ctx context.Context, c Client, base string, to io.Writer) error {
	type page struct {
		Events []json.RawMessage `json:"events"`
		Next   string            `json:"next"`
	}
	until := fmt.Sprint(x.now().UnixMilli()) // an active run has always one event more
	query := url.Values{"limit": {fmt.Sprint(eventsPage)}}
	for p, err := range apiclient.Pages(ctx, c.Client, base+"/events", query, "after",
		func(p page) string { return p.Next }) {
		if err != nil {
			return err
		}
		x.counts.Events += len(p.Events)
		if err := writeLines(to, p.Events); err != nil || len(p.Events) == 0 || later(p.Next, until) {
			return err
		}
	}
	return nil
}

// later reports whether an event is from after a time in milliseconds, with which ids begin.
func later(id, ms string) bool {
	at, _, _ := strings.Cut(id, "-")
	return len(at) > len(ms) || len(at) == len(ms) && at > ms
}

func writeLines(to io.Writer, documents []json.RawMessage) error {
	var b bytes.Buffer
	for _, document := range documents {
		if err := json.Compact(&b, document); err != nil {
			return fmt.Errorf("read the server's answer: %w", err)
		}
		b.WriteByte('\n')
	}
	_, err := b.WriteTo(to)
	return err
}
