// A kubelet of a test: takes registrations of device plug-ins, and prints what each offers.
//
// Each line on standard output is one JSON object. A line on standard input of the form
// "RESOURCE COUNT" asks the plug-in of that resource which devices it prefers, and for those.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

type kubelet struct {
	guard   sync.Mutex
	plugins map[string]api.DevicePluginClient
	healthy map[string][]string
}

func say(line map[string]interface{}) {
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func (k *kubelet) Register(_ context.Context, r *api.RegisterRequest) (*api.Empty, error) {
	say(map[string]interface{}{"registered": r.ResourceName, "version": r.Version})
	go k.watch(r)
	return &api.Empty{}, nil
}

func (k *kubelet) watch(r *api.RegisterRequest) {
	link, err := grpc.Dial("unix://"+api.DevicePluginPath+r.Endpoint, grpc.WithInsecure())
	if err != nil {
		say(map[string]interface{}{"error": err.Error()})
		return
	}
	plugin := api.NewDevicePluginClient(link)
	stream, err := plugin.ListAndWatch(context.Background(), &api.Empty{})
	for err == nil {
		var answer *api.ListAndWatchResponse
		if answer, err = stream.Recv(); err != nil {
			return
		}
		healthy, ill := []string{}, []string{}
		for _, device := range answer.Devices {
			if device.Health == api.Healthy {
				healthy = append(healthy, device.ID)
			} else {
				ill = append(ill, device.ID)
			}
		}
		k.guard.Lock()
		k.plugins[r.ResourceName], k.healthy[r.ResourceName] = plugin, healthy
		k.guard.Unlock()
		say(map[string]interface{}{"resource": r.ResourceName, "healthy": healthy, "ill": ill})
	}
}

func (k *kubelet) allocate(resource string, count int) error {
	k.guard.Lock()
	plugin, healthy := k.plugins[resource], k.healthy[resource]
	k.guard.Unlock()
	preferred, err := plugin.GetPreferredAllocation(context.Background(), &api.PreferredAllocationRequest{
		ContainerRequests: []*api.ContainerPreferredAllocationRequest{
			{AvailableDeviceIDs: healthy, AllocationSize: int32(count)}}})
	if err != nil {
		return err
	}
	ids := preferred.ContainerResponses[0].DeviceIDs
	answer, err := plugin.Allocate(context.Background(), &api.AllocateRequest{
		ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIDs: ids}}})
	if err != nil {
		return err
	}
	say(map[string]interface{}{"devices": ids, "envs": answer.ContainerResponses[0].Envs})
	return nil
}

func main() {
	listener, err := net.Listen("unix", api.KubeletSocket)
	if err != nil {
		panic(err)
	}
	k := &kubelet{plugins: map[string]api.DevicePluginClient{}, healthy: map[string][]string{}}
	server := grpc.NewServer()
	api.RegisterRegistrationServer(server, k)
	go server.Serve(listener)
	say(map[string]interface{}{"listens": api.KubeletSocket})
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var resource string
		var count int
		if _, err := fmt.Sscan(lines.Text(), &resource, &count); err == nil {
			err = k.allocate(resource, count)
			if err != nil {
				say(map[string]interface{}{"error": err.Error()})
			}
		}
	}
}
