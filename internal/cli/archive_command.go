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
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/archive"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/units"
)

func (s *session) archiveCommand() *cobra.Command {
	var to string
	var keep, force bool
	cmd := s.onRun("archive RUN --to FOLDER|FILE.tar.gz", "Write everything that is kept of a run to one file, then "+
		"delete the run", exactly(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			if keep && force {
				return usage("--force stops the run to delete it, and --keep does not delete it; use one of them")
			}
			return s.archive(ctx, c, run, to, keep, force)
		})
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "an existing folder, or a file that is not there yet and ends in .tar.gz")
	f.BoolVar(&keep, "keep", false, "do not delete the run; it may go on")
	f.BoolVar(&force, "force", false, "stop the run first if it goes on")
	cmd.Long = `Write everything that is kept of a run to one file and then delete the run, as run delete does. The file is a gzipped tar of JSON:
the run, its step records, its events, and the batches that are still kept. It has its name only when it is whole, on the disk, and
was read again; the run is deleted after that, and only if nothing happened to it meanwhile.`
	cmd.Example = "  millrace run archive demo --to /backup\n  millrace run archive demo --to demo-so-far.tar.gz " +
		"--keep\n  tar -xzf demo.tar.gz"
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
	s.say("%s has %d steps, %d events and %d batches of run %s, %s", path, m.Counts.Steps, m.Counts.Events,
		m.Counts.Batches, run, units.Bytes(size))
	if !keep {
		if err := x.unchanged(ctx); err != nil {
			return fmt.Errorf("%w\n  the archive is whole: %s; the run is not deleted", err, path)
		}
		if _, err := c.Call(ctx, http.MethodDelete, apiclient.RunPath(x.status.ID), "", nil); err != nil {
			return fmt.Errorf("%w\n  the archive is whole: %s; delete the run with: millrace run delete %s", err, path, run)
		}
		s.say("run %s is deleted; what it held is removed within a minute, and its name can be used again", run)
	}
	if s.format == "table" {
		return nil
	}
	document, err := json.Marshal(struct {
		File    string `json:"file"`
		Bytes   int64  `json:"bytes"`
		Deleted bool   `json:"deleted"`
		archive.Manifest
	}{path, size, !keep, m})
	if err != nil {
		return fmt.Errorf("write what was archived: %w", err)
	}
	return s.show(document, nil)
}

// archivePath is the file that an archive gets: ID.tar.gz in a folder, or the one named.
func archivePath(to string, id rollout.RunName) (string, error) {
	const ending = ".tar.gz"
	if to == "" {
		return "", usage("where to? name a folder, or a file that ends in %s, with --to", ending)
	}
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, string(id)+ending)
	} else if !strings.HasSuffix(to, ending) {
		return "", usage("--to %s: it is no folder, and does not end in %s", to, ending)
	}
	return to, archive.Free(to)
}

// export reads a run over the API, page by page, into an archive.
type export struct {
	client Client
	now    func() time.Time
	status rollout.RunStatus // when the export began
	view   runView
	counts archive.Counts
}

// look reads the run. From then on it is called by its id, so that another run that gets the name is not taken for it.
func (x *export) look(ctx context.Context, run rollout.RunName) error {
	v, _, err := x.client.run(ctx, run)
	if err != nil {
		return err
	}
	if x.view, x.status = v, v.RunStatus; x.status.ID == "" {
		x.status.ID = run // a server of an earlier version
	}
	return nil
}

func (x *export) stop(ctx context.Context) error {
	reason := map[string]string{"reason": "stopped to be archived"}
	path := apiclient.RunPath(x.status.ID) + "/stop"
	if _, _, err := apiclient.Send[rollout.RunStatus](ctx, x.client.Client, http.MethodPost, path, reason); err != nil {
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
	for _, document := range []struct{ name, path string }{{"run.json", base}, {"policies.json", base + "/policies"}} {
		if err := w.Add(document.name, func(to io.Writer) error { return x.copy(ctx, document.path, to) }); err != nil {
			return m, 0, err
		}
	}
	last := rollout.Step(-1)
	if err := w.Add("steps.ndjson", func(to io.Writer) (err error) {
		last, err = x.steps(ctx, base, to)
		return err
	}); err != nil {
		return m, 0, err
	}
	if err := w.Add("events.ndjson", func(to io.Writer) error { return x.events(ctx, base, to) }); err != nil {
		return m, 0, err
	}
	// The batches that are kept are those of the last steps.
	for step := last; step >= 0; step-- {
		at := fmt.Sprintf("%s/steps/%d/batch", base, step)
		err := w.Add(fmt.Sprintf("batches/%d.json", step), func(to io.Writer) error { return x.copy(ctx, at, to) })
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
func (x *export) steps(ctx context.Context, base string, to io.Writer) (last rollout.Step, err error) {
	type page struct {
		Steps []json.RawMessage `json:"steps"`
		Next  *rollout.Step     `json:"next"`
	}
	last = -1
	for from := rollout.Step(0); ; {
		p, err := patient[page](ctx, x.client, fmt.Sprintf("%s/steps?from=%d&limit=%d", base, from, stepsPage))
		if err != nil {
			return last, err
		}
		x.counts.Steps += len(p.Steps)
		if err := writeLines(to, p.Steps); err != nil {
			return last, err
		}
		if n := len(p.Steps); n > 0 {
			var record struct {
				Step rollout.Step `json:"step"`
			}
			if err := json.Unmarshal(p.Steps[n-1], &record); err != nil {
				return last, fmt.Errorf("read a step record: %w", err)
			}
			last = record.Step
		}
		if p.Next == nil {
			return last, nil
		}
		from = *p.Next
	}
}

// events writes the run's events, facts and samples, a line for each.
func (x *export) events(ctx context.Context, base string, to io.Writer) error {
	type page struct {
		Events []json.RawMessage `json:"events"`
		Next   string            `json:"next"`
	}
	until := fmt.Sprint(x.now().UnixMilli()) // an active run has always one event more
	for after := ""; ; {
		query := url.Values{"limit": {fmt.Sprint(eventsPage)}}
		if after != "" {
			query.Set("after", after)
		}
		p, err := patient[page](ctx, x.client, base+"/events?"+query.Encode())
		if err != nil {
			return err
		}
		x.counts.Events += len(p.Events)
		if err := writeLines(to, p.Events); err != nil {
			return err
		}
		if p.Next == after || p.Next == "" || len(p.Events) == 0 || later(p.Next, until) {
			return nil
		}
		after = p.Next
	}
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

// A server under load turns calls away, and says that it does; a long export asks again, but not for good.
const (
	exportAttempts = 30
	exportPause    = time.Second
)

func persist(ctx context.Context, ask func() error) error {
	for try := 1; ; try++ {
		err := ask()
		var p *apiclient.Problem
		if err == nil || try == exportAttempts || !errors.As(err, &p) ||
			!slices.Contains([]int{http.StatusTooManyRequests, http.StatusServiceUnavailable}, p.Status) {
			return err
		}
		if err := retry.Pause(ctx, exportPause); err != nil {
			return err
		}
	}
}

func patient[T any](ctx context.Context, c Client, path string) (v T, err error) {
	err = persist(ctx, func() error { v, _, err = apiclient.Get[T](ctx, c.Client, path); return err })
	return v, err
}

// copy writes an answer as it came, without holding it.
func (x *export) copy(ctx context.Context, path string, to io.Writer) error {
	return persist(ctx, func() error { return x.client.Copy(ctx, path, to) })
}
