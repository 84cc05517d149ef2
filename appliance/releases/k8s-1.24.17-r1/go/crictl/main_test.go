package main

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// node plays a runtime that has one pod, one container that runs and one that ended.
type node struct {
	cri.RuntimeServiceServer
	cri.ImageServiceServer
	done []string
}

func (n *node) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	ready := &cri.RuntimeCondition{Type: cri.RuntimeReady, Status: true}
	return &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{ready}}}, nil
}

func (n *node) ListPodSandbox(context.Context, *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	named := &cri.PodSandboxMetadata{Name: "web", Namespace: "default"}
	return &cri.ListPodSandboxResponse{Items: []*cri.PodSandbox{{Id: "p1", Metadata: named}}}, nil
}

func (n *node) ListContainers(_ context.Context, asked *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	running := &cri.Container{Id: "c1", Metadata: &cri.ContainerMetadata{Name: "web"}, State: cri.ContainerState_CONTAINER_RUNNING}
	ended := &cri.Container{Id: "c2", Metadata: &cri.ContainerMetadata{Name: "once"}, State: cri.ContainerState_CONTAINER_EXITED}
	if asked.Filter.State != nil {
		return &cri.ListContainersResponse{Containers: []*cri.Container{running}}, nil
	}
	return &cri.ListContainersResponse{Containers: []*cri.Container{running, ended}}, nil
}

func (n *node) StopPodSandbox(_ context.Context, asked *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse, error) {
	n.done = append(n.done, "stop "+asked.PodSandboxId)
	return &cri.StopPodSandboxResponse{}, nil
}

func (n *node) RemovePodSandbox(_ context.Context, asked *cri.RemovePodSandboxRequest) (*cri.RemovePodSandboxResponse, error) {
	n.done = append(n.done, "remove "+asked.PodSandboxId)
	return &cri.RemovePodSandboxResponse{}, nil
}

func (n *node) ImageStatus(_ context.Context, asked *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	if asked.Image.Image != "site/pause:3.7" {
		return &cri.ImageStatusResponse{}, nil
	}
	return &cri.ImageStatusResponse{Image: &cri.Image{Id: "sha256:1"}}, nil
}

func (n *node) ListImages(context.Context, *cri.ListImagesRequest) (*cri.ListImagesResponse, error) {
	image := &cri.Image{Id: "sha256:1", RepoTags: []string{"site/pause:3.7"}, RepoDigests: []string{"site/pause@sha256:2"}}
	return &cri.ListImagesResponse{Images: []*cri.Image{image}}, nil
}

func (n *node) PullImage(_ context.Context, asked *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	n.done = append(n.done, "pull "+asked.Image.Image)
	return &cri.PullImageResponse{ImageRef: "sha256:1"}, nil
}

func serve(t *testing.T) (*node, func(...string) (string, error)) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	played, server := &node{}, grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, played)
	cri.RegisterImageServiceServer(server, played)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return played, func(words ...string) (string, error) {
		var output bytes.Buffer
		err := run(append([]string{"-r", "unix://" + socket}, words...), &output)
		return output.String(), err
	}
}

// What kubeadm 1.24 asks: cmd/kubeadm/app/util/runtime/runtime.go.
func TestWhatKubeadmAsks(t *testing.T) {
	played, crictl := serve(t)
	for _, one := range []struct{ words, told string }{
		{"info", `"RuntimeReady"`},
		{"pods -q", "p1\n"},
		{"stopp p1", "Stopped sandbox p1\n"},
		{"rmp p1", "Removed sandbox p1\n"},
		{"pull site/pause:3.7", "Image is up to date for sha256:1\n"},
		{"inspecti --output json site/pause:3.7", "{\n\"status\": {\n  \"id\": \"sha256:1\""},
		{"ps -q", "c1\n"},
		{"ps -a -q", "c1\nc2\n"},
		{"ps -a -o json", `"podSandboxId"`},
		{"images -o json", `"repoDigests": [`},
	} {
		told, err := crictl(strings.Fields(one.words)...)
		if err != nil || !strings.Contains(told, one.told) {
			t.Errorf("%s: %q, %v", one.words, told, err)
		}
	}
	want := "stop p1, remove p1, pull site/pause:3.7"
	if did := strings.Join(played.done, ", "); did != want {
		t.Errorf("did %s, want %s", did, want)
	}
}

func TestWhatFails(t *testing.T) {
	_, crictl := serve(t)
	for _, words := range []string{"", "inspecti site/gone:1", "exec c1 sh", "pods -o yaml", "stopp"} {
		if told, err := crictl(strings.Fields(words)...); err == nil {
			t.Errorf("%q: no error, but %q", words, told)
		}
	}
	if err := run([]string{"-r", "/no/socket", "--timeout", "1s", "info"}, &bytes.Buffer{}); err == nil {
		t.Error("no error without a runtime")
	}
}
