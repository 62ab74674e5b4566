package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/server"
	"github.com/millrace/millrace/internal/version"
)

func newServerCommand(env environment) *cobra.Command {
	var flags serviceFlags
	var listen string
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the API server for trainers and operators",
		Long: `Run the API server. It keeps nothing: any number of them may serve one deployment. Claims and records need Redis only; starting and
changing runs needs Temporal. On anything but a loopback address it asks for bearer tokens, set by MILLRACE_TOKENS.`,
		Example: `  millrace server --redis redis://10.0.0.3:6379/0 --temporal 10.0.0.4:7233
  MILLRACE_TOKENS=$(openssl rand -hex 24) millrace server --listen 0.0.0.0:8700 -c service.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("listen") {
				flags.listen = listen
			}
			cfg, err := flags.service(env)
			if err != nil {
				return err
			}
			return server.Run(cmd.Context(), cfg, version.String(), env.logger(flags.logLevel))
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8700", "address of the API")
	return cmd
}

// serviceFlags are shared by the processes of the service; each overrides its line of the configuration file.
type serviceFlags struct {
	file     string
	listen   string
	probes   string
	dispatch string // file of the dispatch log
	redis    string
	temporal string
	logLevel string
}

func (f *serviceFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "config", "c", "", "service configuration (YAML); see config/examples/service.yaml")
	flags.StringVar(&f.redis, "redis", "", "Redis, as redis://host:port/db")
	flags.StringVar(&f.temporal, "temporal", "", "Temporal, as host:port")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
}

// service reads the configuration: file, then environment, then flags, which are checked like the rest.
func (f *serviceFlags) service(env environment) (config.Service, error) {
	if err := new(slog.Level).UnmarshalText([]byte(f.logLevel)); err != nil {
		return config.Service{}, usage("--log-level %s: use debug, info, warn or error", f.logLevel)
	}
	var data []byte
	if f.file != "" {
		var err error
		if data, err = env.readFile(f.file); err != nil {
			return config.Service{}, usage("read configuration: %v", err)
		}
	}
	name := f.file
	if name == "" {
		name = "configuration"
	}
	return config.ReadService(name, data, f.getenv)
}

// getenv is the environment with the flags in the place of the variables that say the same.
func (f *serviceFlags) getenv(name string) string {
	flag := map[string]string{
		"MILLRACE_LISTEN": f.listen, "MILLRACE_WORKER_LISTEN": f.probes, "MILLRACE_DISPATCH_LOG": f.dispatch,
		"MILLRACE_REDIS_URL": f.redis, "TEMPORAL_ADDRESS": f.temporal,
	}[name]
	if flag != "" {
		return flag
	}
	return os.Getenv(name)
}
