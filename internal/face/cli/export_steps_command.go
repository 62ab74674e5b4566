package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/cli/batchrows"
	"github.com/millrace/millrace/internal/rollout"
)

func (s *session) exportCommand() *cobra.Command {
	var steps, to, format string
	cmd := s.onRun("export RUN --steps FIRST..LAST", cobra.ExactArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			first, last, err := stepRange(steps)
			if err != nil {
				return err
			}
			x := &rowExport{client: Client{c.Patient()}, run: run, first: first, last: last, parquet: format == "parquet"}
			switch {
			case !x.parquet && format != "ndjson":
				err = Usage("-o %s: use ndjson or parquet", format)
			case to != "" && to != "-":
				err = writeFile(to, func(w io.Writer) error { return x.write(ctx, w) })
			case x.parquet && terminal(s.Stdout):
				err = Usage("-o parquet is not for a terminal; name a file with --to")
			default:
				err = x.write(ctx, s.Stdout)
			}
			if err == nil {
				s.Say("%d rows of %d steps of run %s", x.rows, last-first+1, run)
			}
			return err
		})
	cmd.Flags().StringVar(&steps, "steps", "", "a step, or a range with its end: 0..9")
	cmd.Flags().StringVar(&to, "to", "", "a file; default: standard output")
	cmd.Flags().StringVarP(&format, "output", "o", "ndjson", "ndjson, a line of JSON a row, or parquet")
	return cmd
}

// stepRange reads "4" or "0..9".
func stepRange(text string) (first, last rollout.Step, err error) {
	from, to, several := strings.Cut(text, "..")
	if !several {
		to = from
	}
	a, errA := strconv.ParseInt(from, 10, 64)
	b, errB := strconv.ParseInt(to, 10, 64)
	if errA != nil || errB != nil || a < 0 || b < a {
		return 0, 0, Usage("--steps %q: want a step such as 4, or a range with its end such as 0..9", text)
	}
	return rollout.Step(a), rollout.Step(b), nil
}

// rowExport writes the batches of steps as rows. It holds one step, and claims none.
type rowExport struct {
	client      Client
	run         rollout.RunName
	first, last rollout.Step
	parquet     bool
	rows        int // written
}

func (x *rowExport) write(ctx context.Context, to io.Writer) error {
	add, end := func(rows []batchrows.Row) error { return writeRowLines(to, rows) }, func() error { return nil }
	if x.parquet {
		w := parquet.NewGenericWriter[batchrows.Row](to, parquet.Compression(&parquet.Zstd))
		add, end = func(rows []batchrows.Row) error {
			if _, err := w.Write(rows); err != nil {
				return err
			}
			return w.Flush() // a row group a step
		}, w.Close
	}
	for step := x.first; step <= x.last; step++ {
		var text bytes.Buffer
		path := fmt.Sprintf("%s/steps/%d/batch", apiclient.RunPath(x.run), step)
		if err := x.client.Copy(ctx, path, &text); err != nil {
			if refusal(err) == rollout.NoSuchStep {
				err = fmt.Errorf("%w; wait for its trainer: millrace run watch %s", err, x.run)
			}
			return err
		}
		var batch api.Batch
		if err := json.Unmarshal(text.Bytes(), &batch); err != nil {
			return fmt.Errorf("read the batch of step %d: %w", step, err)
		}
		rows := batchrows.Of(&batch)
		if err := add(rows); err != nil {
			return err
		}
		x.rows += len(rows)
	}
	return end()
}

func writeRowLines(to io.Writer, rows []batchrows.Row) error {
	for i := range rows {
		line, err := json.Marshal(&rows[i])
		if err != nil {
			return err
		}
		if _, err := to.Write(append(escapeControls(line), '\n')); err != nil {
			return err
		}
	}
	return nil
}
