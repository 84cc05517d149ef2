// Plays crictl of cri-tools where its file cannot be reached: STAND-IN.
//
// It knows what kubeadm 1.24 and the appliance ask: info, version, pods, ps, images, inspecti, pull,
// stopp, rmp, rm, rmi, stop. Options and output are those of crictl 1.24; what it does not know is
// an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gogo/protobuf/jsonpb"
	"github.com/gogo/protobuf/proto"
	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	version  = "STANDIN"
	messages = 16 << 20
	endpoint = "unix:///run/containerd/containerd.sock"
)

type client struct {
	runtime cri.RuntimeServiceClient
	images  cri.ImageServiceClient
	output  io.Writer
}

type command func(context.Context, client, []string) error

var commands = map[string]command{
	"info": info, "version": versions, "pods": pods, "ps": ps, "images": images,
	"inspecti": inspect, "pull": pull, "stopp": stopPods, "rmp": removePods,
	"stop": stop, "rm": remove, "rmi": removeImages,
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "crictl (STANDIN):", err)
		os.Exit(1)
	}
}

func run(words []string, output io.Writer) error {
	options := flag.NewFlagSet("crictl", flag.ContinueOnError)
	socket := options.String("r", environment("CONTAINER_RUNTIME_ENDPOINT", endpoint), "the runtime's socket")
	options.StringVar(socket, "runtime-endpoint", *socket, "the runtime's socket")
	limit := options.Duration("timeout", 30*time.Minute, "how long the runtime may take")
	only := options.Bool("version", false, "print the version")
	if err := options.Parse(words); err != nil {
		return err
	}
	if *only {
		fmt.Fprintln(output, "crictl version", version)
		return nil
	}
	if options.NArg() == 0 {
		return errors.New("no command given")
	}
	called, known := commands[options.Arg(0)]
	if !known {
		return fmt.Errorf("this stand-in has no command %q", options.Arg(0))
	}
	within, end := context.WithTimeout(context.Background(), *limit)
	defer end()
	if !strings.Contains(*socket, "://") {
		*socket = "unix://" + *socket
	}
	connection, err := grpc.DialContext(within, *socket, grpc.WithInsecure(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messages)))
	if err != nil {
		return err
	}
	defer connection.Close()
	return called(within, client{cri.NewRuntimeServiceClient(connection), cri.NewImageServiceClient(connection), output}, options.Args()[1:])
}

func environment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// asked is what the commands that list can be told.
type asked struct {
	quiet, all bool
	form       string
	rest       []string
}

func parse(name string, words []string) (asked, error) {
	var found asked
	options := flag.NewFlagSet(name, flag.ContinueOnError)
	options.BoolVar(&found.quiet, "q", false, "print the ids alone")
	options.BoolVar(&found.quiet, "quiet", false, "print the ids alone")
	options.BoolVar(&found.all, "a", false, "those that ended, too")
	options.BoolVar(&found.all, "all", false, "those that ended, too")
	options.StringVar(&found.form, "o", "table", "json or table")
	options.StringVar(&found.form, "output", "table", "json or table")
	err := options.Parse(words)
	found.rest = options.Args()
	if err == nil && found.form != "json" && found.form != "table" {
		err = fmt.Errorf("%s: this stand-in prints json or a table, not %q", name, found.form)
	}
	return found, err
}

// As crictl writes messages: keys in camel case, also those without a value.
var written = jsonpb.Marshaler{EmitDefaults: true, Indent: "  "}

func printed(output io.Writer, value proto.Message) error {
	if err := written.Marshal(output, value); err != nil {
		return err
	}
	_, err := fmt.Fprintln(output)
	return err
}

func info(ctx context.Context, to client, _ []string) error {
	answer, err := to.runtime.Status(ctx, &cri.StatusRequest{Verbose: true})
	if err != nil {
		return err
	}
	return printed(to.output, answer)
}

func versions(ctx context.Context, to client, _ []string) error {
	answer, err := to.runtime.Version(ctx, &cri.VersionRequest{})
	if err != nil {
		return err
	}
	fmt.Fprintf(to.output, "Version:  %s\nRuntimeName:  %s\nRuntimeVersion:  %s\nRuntimeApiVersion:  %s\n",
		answer.Version, answer.RuntimeName, answer.RuntimeVersion, answer.RuntimeApiVersion)
	return nil
}

func pods(ctx context.Context, to client, words []string) error {
	told, err := parse("pods", words)
	if err != nil {
		return err
	}
	answer, err := to.runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	if told.form == "json" {
		return printed(to.output, answer)
	}
	rows := [][]string{{"POD ID", "STATE", "NAMESPACE", "NAME"}}
	for _, pod := range answer.Items {
		state := strings.TrimPrefix(pod.State.String(), "SANDBOX_")
		rows = append(rows, []string{pod.Id, state, pod.Metadata.Namespace, pod.Metadata.Name})
	}
	return listed(to.output, rows, told.quiet)
}

func ps(ctx context.Context, to client, words []string) error {
	told, err := parse("ps", words)
	if err != nil {
		return err
	}
	filter := &cri.ContainerFilter{}
	if !told.all {
		filter.State = &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}
	}
	answer, err := to.runtime.ListContainers(ctx, &cri.ListContainersRequest{Filter: filter})
	if err != nil {
		return err
	}
	if told.form == "json" {
		return printed(to.output, answer)
	}
	rows := [][]string{{"CONTAINER", "STATE", "NAME", "POD ID"}}
	for _, one := range answer.Containers {
		state := strings.TrimPrefix(one.State.String(), "CONTAINER_")
		rows = append(rows, []string{one.Id, state, one.Metadata.Name, one.PodSandboxId})
	}
	return listed(to.output, rows, told.quiet)
}

func images(ctx context.Context, to client, words []string) error {
	told, err := parse("images", words)
	if err != nil {
		return err
	}
	answer, err := to.images.ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil {
		return err
	}
	if told.form == "json" {
		return printed(to.output, answer)
	}
	rows := [][]string{{"IMAGE ID", "SIZE", "NAMES"}}
	for _, image := range answer.Images {
		rows = append(rows, []string{image.Id, fmt.Sprint(image.Size_), strings.Join(image.RepoTags, " ")})
	}
	return listed(to.output, rows, told.quiet)
}

func listed(output io.Writer, rows [][]string, quiet bool) error {
	if quiet {
		for _, row := range rows[1:] {
			fmt.Fprintln(output, row[0])
		}
		return nil
	}
	table := tabwriter.NewWriter(output, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

func inspect(ctx context.Context, to client, words []string) error {
	told, err := parse("inspecti", words)
	if err != nil {
		return err
	}
	return each(told.rest, func(name string) error {
		answer, err := to.images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
		if err != nil {
			return err
		}
		if answer.Image == nil {
			return fmt.Errorf("no such image %q present", name)
		}
		text, err := written.MarshalToString(answer.Image)
		if err == nil {
			// As crictl has it: the image under "status", what the runtime adds under "info".
			_, err = fmt.Fprintf(to.output, "{\n\"status\": %s,\n\"info\": {}\n}\n", text)
		}
		return err
	})
}

func pull(ctx context.Context, to client, words []string) error {
	return each(words, func(name string) error {
		answer, err := to.images.PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: name}})
		if err == nil {
			fmt.Fprintf(to.output, "Image is up to date for %s\n", answer.ImageRef)
		}
		return err
	})
}

func stopPods(ctx context.Context, to client, words []string) error {
	return each(words, func(id string) error {
		_, err := to.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
		return told(to, "Stopped sandbox", id, err)
	})
}

func removePods(ctx context.Context, to client, words []string) error {
	return each(words, func(id string) error {
		_, err := to.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
		return told(to, "Removed sandbox", id, err)
	})
}

func stop(ctx context.Context, to client, words []string) error {
	return each(words, func(id string) error {
		_, err := to.runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id})
		return told(to, id, "", err)
	})
}

func remove(ctx context.Context, to client, words []string) error {
	return each(words, func(id string) error {
		_, err := to.runtime.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: id})
		return told(to, id, "", err)
	})
}

func removeImages(ctx context.Context, to client, words []string) error {
	return each(words, func(name string) error {
		_, err := to.images.RemoveImage(ctx, &cri.RemoveImageRequest{Image: &cri.ImageSpec{Image: name}})
		return told(to, "Deleted:", name, err)
	})
}

// each does all that were named, also after one that failed.
func each(names []string, do func(string) error) error {
	if len(names) == 0 {
		return errors.New("name at least one")
	}
	var failed []string
	for _, name := range names {
		if err := do(name); err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", name, err))
		}
	}
	if failed != nil {
		return errors.New(strings.Join(failed, "; "))
	}
	return nil
}

func told(to client, what, id string, err error) error {
	if err == nil {
		fmt.Fprintln(to.output, strings.TrimSpace(what+" "+id))
	}
	return err
}
