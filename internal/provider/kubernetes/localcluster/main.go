// Command localcluster is a cluster of Kubernetes on this machine, without containers: the real control plane that
// `make kubernetes` builds, nodes with GPUs that are only said to be there, and a kubelet that runs the command of each
// pod as a process with an address of 127.0.0.0/8 (Linux). It runs until it is interrupted, or as long as a command:
//
//	localcluster -binaries .bin/kubernetes
//	localcluster -binaries .bin/kubernetes -- kubectl apply --server-side --dry-run=server -f chart.yaml
//
// With -image NAME=DOCKERFILE:FOLDER, as root, pods are run with files, networks, volumes, probes and Services of their
// own instead, and controllers run, so that what a chart makes works (package podsandbox).
//
// The command has the binaries on its PATH, KUBECONFIG with an administrator's rights, and in WORKER_KUBECONFIG those
// of a worker with scaling.provider kubernetes, in the namespace of -namespace.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/provider/kubernetes/controlplane"
	"github.com/millrace/millrace/internal/provider/kubernetes/fakekubelet"
)

type options struct {
	binaries, dir, namespace, rules string
	nodes                           int
	gpus                            int64
	images                          []string
	command                         []string
}

// What pods and Services have for addresses where pods have networks of their own.
var (
	gateway  = netip.MustParsePrefix("10.243.0.1/16")
	services = netip.MustParsePrefix("10.242.0.0/24")
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var o options
	flag.StringVar(&o.binaries, "binaries", ".bin/kubernetes", "folder with etcd, kube-apiserver and kube-scheduler")
	flag.StringVar(&o.dir, "dir", "", "folder for data, kubeconfigs and logs; a temporary one, if not given")
	flag.StringVar(&o.namespace, "namespace", "rollouts", "namespace in which the worker may have pods")
	flag.StringVar(&o.rules, "rules", "deploy/helm/millrace/files/kubernetes-provider-rules.yaml", "the worker's rights")
	flag.IntVar(&o.nodes, "nodes", 2, "how many nodes there are")
	flag.Int64Var(&o.gpus, "gpus", 8, "how many GPUs each has")
	flag.Func("image", "NAME=DOCKERFILE:FOLDER, an image and its files; may be given again (Linux, root)",
		func(text string) error { o.images = append(o.images, text); return nil })
	flag.Parse()
	o.command = flag.Args()
	err := run(ctx, o)
	stop()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		os.Exit(ended.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	binaries, err := filepath.Abs(o.binaries)
	if err != nil {
		return err
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "localcluster"); err != nil {
			return err
		}
		defer os.RemoveAll(o.dir)
	}
	fmt.Fprintln(os.Stderr, "localcluster: starting etcd, kube-apiserver and kube-scheduler")
	cfg := controlplane.Config{Binaries: binaries, Dir: o.dir}
	if len(o.images) > 0 {
		remove, err := addNetwork()
		if err != nil {
			return err
		}
		defer remove()
		cfg.Controllers, cfg.Address, cfg.Services = true, gateway.Addr().String(), services.String()
	}
	plane, err := controlplane.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer plane.Stop()
	worker, err := addWorker(ctx, plane, o)
	if err != nil {
		return err
	}
	end, err := runPods(plane, o)
	if end != nil {
		defer end()
	}
	if err != nil {
		return err
	}

	admin := filepath.Join(o.dir, "admin.kubeconfig")
	if len(o.command) == 0 {
		fmt.Fprintf(os.Stderr, "localcluster: ready until Ctrl-C; %d nodes with %d GPUs each\nexport KUBECONFIG=%s\n"+
			"export WORKER_KUBECONFIG=%s\n", o.nodes, o.gpus, admin, worker)
		<-ctx.Done()
		return nil
	}
	path := binaries + string(os.PathListSeparator) + os.Getenv("PATH")
	if err := os.Setenv("PATH", path); err != nil { // where the command is looked for
		return err
	}
	cmd := exec.CommandContext(ctx, o.command[0], o.command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), "KUBECONFIG="+admin, "WORKER_KUBECONFIG="+worker)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// addWorker makes the namespace, and a kubeconfig with a worker's rights.
func addWorker(ctx context.Context, plane *controlplane.Plane, o options) (kubeconfig string, err error) {
	rules, err := controlplane.ReadRules(o.rules)
	if err != nil {
		return "", err
	}
	for _, namespace := range []string{"default", o.namespace} {
		if err := plane.AddNamespace(ctx, namespace); err != nil {
			return "", err
		}
	}
	account, err := plane.AddAccount(ctx, o.namespace, "millrace-worker", rules)
	if err != nil {
		return "", err
	}
	return plane.WriteKubeconfig("worker", account, o.namespace)
}

// runPods adds the nodes and runs their kubelet until end is called.
func runPods(plane *controlplane.Plane, o options) (end func(), err error) {
	log, err := os.OpenFile(filepath.Join(o.dir, "logs", "pods.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	// Of two clusters on one machine each has addresses of its own.
	first := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(254)), byte(rand.IntN(256)), 1})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	end = func() { cancel(); running.Wait(); _ = log.Close() }
	cfg := fakekubelet.Config{
		API: plane.Admin(), Runtime: fakekubelet.Processes{Log: log}, IPs: first, Every: 200 * time.Millisecond,
	}
	if len(o.images) > 0 {
		runtime, follow, err := runSandboxes(plane, o)
		if err != nil {
			return end, err
		}
		running.Go(func() { follow(ctx) })
		cfg.Runtime, cfg.Reports, cfg.IPs = runtime, true, gateway.Addr().Next()
	}
	kubelet, err := fakekubelet.New(cfg)
	if err != nil {
		return end, err
	}
	for i := range o.nodes {
		name := fmt.Sprintf("gpu-%d", i+1)
		if err := kubelet.AddNode(context.Background(), name, o.gpus, nil); err != nil {
			return end, err
		}
	}
	running.Go(func() { kubelet.Run(ctx) })
	return end, nil
}
