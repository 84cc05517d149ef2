"""The bundle goes on being served when the laptop that brought it is gone."""


def test_it_is_served_on_the_port_of_the_site(host):
    options = "--insecure --resolve artifacts.site.test:8444:127.0.0.1"
    url = "https://artifacts.site.test:8444/manifest.json"
    assert host.run(f"curl --silent --fail {options} {url}").rc == 0
