// Command apiserver runs a command beside a real API server of Kubernetes, with its etcd and RBAC, as envtest of
// sigs.k8s.io/controller-runtime starts them; KUBECONFIG names an administrator's rights. There are no nodes, and
// nothing schedules or runs pods.
//
//	apiserver -binaries .bin/kubernetes -- kubectl apply --server-side --dry-run=server -f chart.yaml
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	binaries := flag.String("binaries", ".bin/kubernetes", "folder with etcd, kube-apiserver and kubectl")
	flag.Parse()
	if err := run(ctx, *binaries, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binaries string, command []string) (err error) {
	if len(command) == 0 {
		return errors.New("want a command to run")
	}
	env := &envtest.Environment{BinaryAssetsDirectory: binaries, ControlPlaneStartTimeout: 3 * time.Minute}
	// Pods name service accounts, as in clusters; envtest leaves that out.
	env.ControlPlane.GetAPIServer().Configure().Disable("disable-admission-plugins")
	if _, err := env.Start(); err != nil {
		return fmt.Errorf("start the API server: %w", err)
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	dir, err := os.MkdirTemp("", "millrace-apiserver-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "MILLRACE_TEST_KUBECONFIG="+kubeconfig,
		"PATH="+binaries+":"+os.Getenv("PATH"))
	return cmd.Run()
}
