// Command pageshots takes pictures of the operator's pages of a server that runs, at the widths of a desk and of a
// telephone, by day and by night:
//
//	go run ./internal/web/pageshots -server http://127.0.0.1:8700 -out DIR / /runs/demo
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/internal/web/browser"
)

func main() {
	server := flag.String("server", "http://127.0.0.1:8700", "whose pages")
	out := flag.String("out", ".", "folder for the pictures")
	flag.Parse()
	if err := run(context.Background(), *server, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "pageshots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server, out string, pages []string) error {
	path, err := browser.Find()
	if err != nil {
		return err
	}
	b, err := browser.Start(ctx, path, server)
	if err != nil {
		return err
	}
	defer b.Close()
	for _, page := range pages {
		if err := b.Open(page); err != nil {
			return fmt.Errorf("open %s: %w", page, err)
		}
		name := strings.Trim(strings.NewReplacer("/", "-", "?", "-", "&", "-").Replace(page), "-")
		if name == "" {
			name = "overview"
		}
		for _, width := range []int64{1440, 390} {
			for _, dark := range []bool{false, true} {
				picture, err := b.Shot(width, dark)
				if err != nil {
					return fmt.Errorf("picture of %s: %w", page, err)
				}
				scheme := map[bool]string{false: "light", true: "dark"}[dark]
				file := filepath.Join(out, fmt.Sprintf("%s-%d-%s.png", name, width, scheme))
				if err := os.WriteFile(file, picture, 0o644); err != nil {
					return err
				}
			}
		}
		if beyond, err := b.WidthBeyond(); err == nil && beyond > 0 {
			fmt.Printf("%s: %d pixels wider than the window\n", page, beyond)
		}
	}
	for _, fault := range b.Faults() {
		fmt.Println("fault:", fault)
	}
	return nil
}
