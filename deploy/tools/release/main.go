// Command release builds Millrace for the platforms that it is released for, and writes what a release is: a tarball
// and an SBOM (CycloneDX) for each, and the checksums of all. The same commit and the same Go make the same bytes, in
// whatever folder and on whatever machine. It is a module of its own, so that what writes SBOMs is no part of Millrace.
//
// Start reading at run.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// platforms is what Millrace is released for.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/arm64"}

// release is one release to be made.
type release struct {
	source  string // the repository
	out     string // the folder that it is written to
	version string
	commit  string
	date    time.Time // of the commit: every file's
}

func main() {
	var r release
	var date, only string
	flag.StringVar(&r.source, "source", ".", "the repository")
	flag.StringVar(&r.out, "out", "dist", "the folder to write to; what is in it of an earlier release is removed")
	flag.StringVar(&r.version, "version", "", "of the release, such as v1.2.3")
	flag.StringVar(&r.commit, "commit", "", "that is built")
	flag.StringVar(&date, "date", "", "of the commit, RFC 3339")
	flag.StringVar(&only, "platforms", strings.Join(platforms, ","), "to build for")
	flag.Parse()
	var err error
	if r.date, err = time.Parse(time.RFC3339, date); err == nil {
		err = r.run(strings.Split(only, ","))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r release) run(platforms []string) error {
	if r.version == "" {
		return errors.New("-version: name it, such as v1.2.3")
	}
	if err := r.clear(); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "millrace-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) // what is left of it is the system's to remove
	completions, err := r.completions(work)
	if err != nil {
		return err
	}
	var written []string
	for _, platform := range platforms {
		names, err := r.one(work, platform, completions)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		written = append(written, names...)
	}
	return r.checksums(written)
}

// clear makes the folder, and removes what an earlier release has left there.
func (r release) clear() error {
	old, err := filepath.Glob(filepath.Join(r.out, "millrace_*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range append(old, filepath.Join(r.out, "checksums.txt")) {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, os.MkdirAll(r.out, 0o755))...)
}

// one writes the tarball and the SBOM of a platform.
func (r release) one(work, platform string, completions []file) (names []string, err error) {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, errors.New("want OS/ARCH")
	}
	binary := filepath.Join(work, system+"-"+arch)
	if err := r.build(binary, system, arch); err != nil {
		return nil, err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("millrace_%s_%s_%s", r.version, system, arch)
	files := append([]file{{"millrace", 0o755, program}}, completions...)
	for _, from := range alongside {
		if strings.HasPrefix(from, "deploy/systemd/") && system != "linux" {
			continue
		}
		found, err := r.read(from)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	built, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, err
	}
	terms, err := r.licences(built)
	if err != nil {
		return nil, err
	}
	packed, err := tarball(name, append(files, file{"THIRD_PARTY_LICENSES", 0o644, terms}), r.date)
	if err != nil {
		return nil, err
	}
	bill, err := sbom(built, sha256.Sum256(program), r)
	if err != nil {
		return nil, err
	}
	return []string{name + ".tar.gz", name + ".cdx.json"}, errors.Join(
		os.WriteFile(filepath.Join(r.out, name+".tar.gz"), packed, 0o644),
		os.WriteFile(filepath.Join(r.out, name+".cdx.json"), bill, 0o644))
}

// alongside is what a tarball has beside the program, of the repository.
var alongside = []string{"README.md", "docs/*.md", "config/examples/*.yaml", "config/schema/*.json",
	"deploy/systemd/*.service", "deploy/systemd/*.conf", "deploy/systemd/environment.example"}

func (r release) read(pattern string) ([]file, error) {
	names, err := filepath.Glob(filepath.Join(r.source, pattern))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("there is no %s (%v)", pattern, err)
	}
	slices.Sort(names)
	var files []file
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		within, err := filepath.Rel(r.source, name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{filepath.ToSlash(within), 0o644, data})
	}
	return files, nil
}

// build builds the program for a platform. Nothing of the folder, the user or the time is in it.
func (r release) build(to, system, arch string) error {
	const names = "github.com/millrace/millrace/internal/kit/version."
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "timetzdata", "-ldflags",
		fmt.Sprintf("-s -w -buildid= -X %sreleased=%s -X %scommit=%s -X %sdate=%s", names, r.version, names, r.commit,
			names, r.date.UTC().Format(time.RFC3339)),
		"-o", to, "./cmd/millrace")
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOFLAGS=", "GOEXPERIMENT=",
		"GOAMD64=v1", "GOARM64=v8.0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	return nil
}

// completions is what the program itself says of its commands, for shells: the same on every platform.
func (r release) completions(work string) ([]file, error) {
	binary := filepath.Join(work, "here")
	if err := r.build(binary, runtime.GOOS, runtime.GOARCH); err != nil {
		return nil, err
	}
	var files []file
	for shell, name := range map[string]string{"bash": "millrace.bash", "zsh": "_millrace", "fish": "millrace.fish"} {
		text, err := exec.Command(binary, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("millrace completion %s: %w", shell, err)
		}
		files = append(files, file{"completions/" + name, 0o644, text})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// checksums writes what sha256sum -c reads.
func (r release) checksums(names []string) error {
	var text strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(data), name)
	}
	return os.WriteFile(filepath.Join(r.out, "checksums.txt"), []byte(text.String()), 0o644)
}
